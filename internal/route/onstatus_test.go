package route

import (
	"strings"
	"testing"
)

func TestParseOnStatus(t *testing.T) {
	got, err := ParseOnStatus("422:dead, 404:pause")
	if err != nil || got.String() != "404:pause,422:dead" || !got.Pauses() || got[422] != ActionDead || got[500] != "" {
		t.Errorf("%v, %v", got, err)
	}
	for value, want := range map[string]string{
		"404":               `"404" is not status:action`,
		"4xx:dead":          `"4xx:dead" is not status:action`,
		"404:dead,":         `"" is not status:action`,
		"204:dead":          "204 is a success",
		"600:dead":          "600 is not a status",
		"0:dead":            "0 is not a status",
		"404:drop":          `"drop" is not an action`,
		"404:dead,404:dead": "404 is given twice; want each status once",
	} {
		if _, err := ParseOnStatus(value); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}

package sign

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestParseSecrets(t *testing.T) {
	enc := func(n int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
	}
	for s, want := range map[string]int{enc(24): 1, enc(64): 1, enc(32) + ", " + enc(25): 2, strings.TrimRight(enc(25), "="): 1} {
		if got, err := ParseSecrets(s); err != nil || len(got) != want {
			t.Errorf("%d secrets, %v", len(got), err)
		}
	}
	for s, want := range map[string]string{
		"":                       "empty",
		"  ":                     "empty",
		"whsec_":                 "has 0 bytes",
		enc(23):                  "has 23 bytes",
		enc(65):                  "has 65 bytes",
		"hunter2hunter2hunter2":  "whsec_",
		"whsec_hunter2!!!":       "base64",
		enc(32) + ",":            "secret 2",
		enc(32) + ",whsec_aGk=":  "secret 2 has 2 bytes",
		"whpk_" + enc(32)[6:]:    "whsec_",
		enc(32) + ",,hunter2":    "secret 2",
		"whsec_aHVudGVyMg==\nX=": "base64",
	} {
		got, err := ParseSecrets(s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", s, got, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aGk")) {
			t.Errorf("quoted: %v", err)
		}
	}
}

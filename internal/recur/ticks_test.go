package recur

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"
)

// ticksText is written by testdata/ticks.py.
//
//go:embed testdata/ticks.txt
var ticksText string

// Twelve zones over twenty years, compared with the zoneinfo of Python.
func TestTicksOfZonesOverTwentyYears(t *testing.T) {
	zones, total := map[string]bool{}, 0
	for line := range strings.Lines(ticksText) {
		parts := strings.Split(strings.TrimSpace(line), "|")
		name, expression, years := parts[0], parts[1], strings.Fields(parts[3])
		r, err := Parse(Spec{Cron: expression, Zone: name})
		if err != nil || parts[2] != "2006" || len(years) != 20 {
			t.Fatal(line, err)
		}
		zones[name] = true
		for i, want := range years {
			got, sample := ticksOf(r, 2006+i)
			if got != want {
				t.Errorf("%s in %s, %d: %s ticks, want %s. Around changes of the clock: %v. Are the zone data of this machine old?",
					expression, name, 2006+i, got, want, sample)
			}
			total++
		}
	}
	if len(zones) < 10 || total != len(zones)*9*20 {
		t.Errorf("%d zones, %d years were compared", len(zones), total)
	}
}

// ticksOf returns count and digest of the ticks of a year, and those within a day of a change of the clock.
func ticksOf(r *Rule, year int) (digest string, around []string) {
	list, n := sha256.New(), 0
	end := time.Date(year+1, 1, 1, 0, 0, 0, 0, r.zone)
	for at := r.Next(time.Date(year, 1, 1, 0, 0, 0, 0, r.zone).Add(-1)); at.Before(end); at = r.Next(at) {
		fmt.Fprintf(list, "%d\n", at.Unix())
		n++
		if offset(at.AddDate(0, 0, -1), r.zone) != offset(at.AddDate(0, 0, 1), r.zone) {
			around = append(around, at.In(r.zone).Format("01-02 15:04Z07:00"))
		}
	}
	return fmt.Sprintf("%d:%x", n, list.Sum(nil)[:4]), around
}

package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// A short time is in the zone of TZ, and the full time is printed.
func TestTimesUseZoneOfTZ(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.env = append(d.env, "TZ=Asia/Shanghai")
	shanghai := time.FixedZone("", 8*60*60)

	yesterday := func() string {
		y, m, day := time.Now().In(shanghai).Date()
		return "--since is " + time.Date(y, m, day-1, 0, 0, 0, 0, shanghai).UTC().Format(time.RFC3339) + "\n"
	}
	before := yesterday()
	_, errs := d.run(0, "list", "--since", "yesterday", "--until", "14:00+08:00")
	if after := yesterday(); !strings.Contains(errs, before) { // midnight in Shanghai may have passed
		contains(t, errs, after)
	}
	contains(t, errs, "T06:00:00Z\n")

	began := time.Now()
	out, errs := d.run(0, "schedule", "app1:jobs:t:1", "--due", "14:00", "--json")
	m := regexp.MustCompile(`--due is (\S+)\n`).FindStringSubmatch(errs)
	if m == nil {
		t.Fatalf("the time is not printed: %s", errs)
	}
	due, err := time.Parse(time.RFC3339, m[1])
	if err != nil || due.In(shanghai).Hour() != 14 || !due.After(began) || time.Until(due) > 24*time.Hour {
		t.Errorf("due %s, %v", due, err)
	}
	contains(t, out, due.Format("2006-01-02T15:04:05"))

	if _, errs := d.run(0, "list", "--since", "2026-11-21T00:00:00Z", "--until", "1h"); strings.Contains(errs, "since is") ||
		strings.Contains(errs, "until is") {
		t.Errorf("a time in full is told again: %s", errs)
	}
	d.env = append(d.env, "TZ=Europe/Berlin")
	_, errs = d.run(2, "list", "--since", "2026-10-25 02:30")
	contains(t, errs, "is twice in the zone Europe/Berlin", "2026-10-25T00:30:00Z")
	_, errs = d.run(2, "reschedule", "app1:jobs:t:1", "--due", "2027-03-28 02:30")
	contains(t, errs, "there is no 2027-03-28 02:30:00")
}

package cli

import (
	"strings"
	"testing"

	"notifier/internal/notice"
)

func TestRepeatedScheduleNamesDeadAndCancelledNotice(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	for key, remedy := range map[string]string{
		"app1:jobs:t:cancelled": "it was cancelled and is not sent: schedule it with on_duplicate replace",
		"app1:jobs:t:dead":      "it is dead (gone) and not sent again: redrive it, or schedule it with on_duplicate replace",
	} {
		d.run(0, "schedule", key, "--due", "2031-01-01T00:00:00Z")
		_, errs := d.run(1, "schedule", key, "--due", "2032-01-01T00:00:00Z")
		contains(t, errs, "409 Conflict", "scheduled for 2031-01-01T00:00:00.000Z")
		if d.engine.Move(key, notice.Dead, notice.ReasonGone); strings.HasSuffix(key, "cancelled") {
			d.run(0, "cancel", key)
		}
		out, errs := d.run(1, "schedule", key, "--due", "2031-01-01T00:00:00Z")
		contains(t, out, "kept already")
		contains(t, errs, key+": "+remedy)
		d.stdin = `{"key":"` + key + `","due":"2031-01-01T00:00:00Z"}` + "\n" + `{"key":"` + key + `","due":"2032-01-01T00:00:00Z"}`
		out, errs = d.run(1, "import", "-")
		contains(t, out, "0 created, 1 kept already, 1 refused", "1 of those kept are dead or cancelled and not sent")
		contains(t, errs, "standard input:1: "+key+": "+remedy)
		contains(t, errs, "standard input:2: "+key+": the key has this notice, but it was scheduled for 2031")
	}
}

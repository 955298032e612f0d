package doctor

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// repeats compares for how long a repeated schedule call is recognised with the
// setting.
func (r *run) repeats(ctx context.Context) {
	const check = "repeats"
	s := store.New(store.Options{Client: r.conn.UniversalClient, Space: r.space, Cluster: r.conn.Masters != nil, Nodes: r.conn.Nodes,
		Retention: r.cfg.Retention, RepeatWindow: r.cfg.RepeatWindow})
	var prefixes []string
	for _, route := range r.cfg.Routes {
		prefixes = append(prefixes, route.Prefix)
	}
	counts, _, err := s.Counts(ctx, prefixes)
	if err != nil {
		r.add(Finding{Check: check, Severity: Error,
			Message: fmt.Sprintf("for how long repeated schedule calls are recognised cannot be read: %v", err)})
		return
	}

	short := 0
	for _, c := range counts {
		if c.RepeatWindow >= s.RepeatWindow() {
			continue
		}
		short++
		r.add(Finding{Check: check, Severity: Warning,
			Message: fmt.Sprintf("a schedule call under %s that is repeated more than %s after its notice was settled makes a second notice; "+
				"NOTIFIER_REPEAT_WINDOW is %s",
				c.Prefix, notice.Short(c.RepeatWindow.Truncate(time.Second)), notice.Short(s.RepeatWindow())),
			Remedy: "raise NOTIFIER_REPEAT_BYTES, 65 bytes for each notice that is settled in the window and an eighth more; if Redis's memory " +
				"was full, the window grows again by itself"})
	}
	if short == 0 && len(counts) > 0 {
		r.add(Finding{Check: check, Severity: OK,
			Message: fmt.Sprintf("a repeated schedule call is recognised for %s after its notice was settled, at least",
				notice.Short(s.RepeatWindow()))})
	}
}

package doctor

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// repeats compares the window in which repeated schedule calls are recognised with the setting.
func (r *run) repeats(ctx context.Context) {
	const check = "repeats"
	s := store.New(store.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil, Nodes: r.conn.Nodes,
		Retention: r.cfg.Retention, RepeatWindow: r.cfg.RepeatWindow})
	var prefixes []string
	for _, route := range r.cfg.Routes {
		prefixes = append(prefixes, route.Prefix)
	}

	counts, _, err := s.Counts(ctx, prefixes)
	if err != nil {
		r.add(Finding{Check: check, Severity: Error,
			Message: fmt.Sprintf("cannot read the window of repeated schedule calls: %v", err)})
		return
	}

	short := 0
	for _, c := range counts {
		if c.RepeatWindow >= s.RepeatWindow() {
			continue
		}

		short++
		r.add(Finding{Check: check, Severity: Warning,
			Message: fmt.Sprintf("a schedule call under %s repeated more than %s after its notice was settled creates a second notice; "+
				"NOTIFIER_REPEAT_WINDOW is %s",
				c.Prefix, notice.Short(c.RepeatWindow.Truncate(time.Second)), notice.Short(s.RepeatWindow())),
			Remedy: "raise NOTIFIER_REPEAT_BYTES, 65 bytes for each notice settled in the window plus an eighth; if Redis's memory " +
				"was full, the window grows again by itself"})
	}

	if short == 0 && len(counts) > 0 {
		r.add(Finding{Check: check, Severity: OK,
			Message: fmt.Sprintf("repeated schedule calls are recognised for at least %s after the notice was settled",
				notice.Short(s.RepeatWindow()))})
	}
}

package engine

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"notifier/internal/redistest"
	"notifier/internal/route"
)

// TestIdleInstancesSendFewCommands: eight instances with ten routes together, and one with
// a hundred, as they send them; what scripts call within is not counted.
func TestIdleInstancesSendFewCommands(t *testing.T) {
	for _, c := range []struct{ instances, routes, perSecond int }{{8, 10, 24}, {1, 100, 5}} {
		t.Run(fmt.Sprintf("%d with %d routes", c.instances, c.routes), func(t *testing.T) {
			t.Parallel()
			idle(t, c.instances, c.routes, c.perSecond)
		})
	}
}

func idle(t *testing.T, instances, routes, perSecond int) {
	const counted = 30 * time.Second // the interval of the rarest work
	srv := redistest.Start(t)
	var all []*world
	for range instances {
		var list []*route.Route
		for i := range routes {
			list = append(list, testRoute(fmt.Sprintf("r%d", i), fmt.Sprintf("app1:m%d", i)))
		}
		all = append(all, start(t, srv, newSink(1), nil, list...))
	}
	for _, w := range all {
		eventually(t, "all live", func() bool { return w.Fleet().View().Alive() == instances })
	}
	time.Sleep(5 * time.Second) // sleep: the first looks of all are no idleness
	c, err := net.Dial("tcp", srv.Client().Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(counted))
	n, by := 0, map[string]int{}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		_, command, ok := strings.Cut(lines.Text(), "] ")
		if !ok || strings.Contains(lines.Text(), " lua] ") {
			continue
		}
		n++
		f := strings.Fields(command)
		if len(f) > 3 {
			f = f[:3]
		}
		by[strings.Join(f, " ")]++
	}
	t.Logf("%.1f commands/s together: %v", float64(n)/counted.Seconds(), by)
	if limit := perSecond * int(counted.Seconds()); n > limit {
		t.Errorf("%d commands in %s, want %d at most", n, counted, limit)
	}
}

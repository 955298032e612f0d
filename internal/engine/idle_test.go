package engine

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"notifier/internal/route"
	"notifier/internal/testkit"
)

// TestIdleInstancesSendFewCommands limits the commands per second that idle instances send together, and the commands
// that their scripts call.
func TestIdleInstancesSendFewCommands(t *testing.T) {
	for _, c := range []struct{ instances, routes, sent, inScripts int }{{1, 1, 3, 9}, {8, 10, 24, 80}, {1, 100, 5, 58}} {
		t.Run(fmt.Sprintf("%d with %d routes", c.instances, c.routes), func(t *testing.T) {
			t.Parallel()
			idle(t, c.instances, c.routes, c.sent, c.inScripts)
		})
	}
}

func idle(t *testing.T, instances, routes, sent, inScripts int) {
	const counted = 30 * time.Second        // the interval of the rarest work
	const allowed = counted + 2*time.Second // work of each second may come 31 times in such an interval
	srv := testkit.StartRedis(t)
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
	n, scripts, by := 0, 0, map[string]int{}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		_, command, ok := strings.Cut(lines.Text(), "] ")
		if !ok {
			continue
		}
		if strings.Contains(lines.Text(), " lua] ") {
			scripts++
			name, _, _ := strings.Cut(command, " ")
			by["in scripts: "+name]++
			continue
		}
		n++
		f := strings.Fields(command)
		by[strings.Join(f[:min(len(f), 3)], " ")]++
	}
	t.Logf("%.1f commands/s sent, %.1f in scripts: %v", float64(n)/counted.Seconds(), float64(scripts)/counted.Seconds(), by)
	if limit := sent * int(allowed.Seconds()); n > limit {
		t.Errorf("%d commands in %s, want %d at most", n, counted, limit)
	}
	if limit := inScripts * int(allowed.Seconds()); scripts > limit {
		t.Errorf("%d commands in scripts in %s, want %d at most", scripts, counted, limit)
	}
}

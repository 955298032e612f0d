//go:build fault

package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

// soon is how long an answer may take while a node hangs.
const soon = 1500 * time.Millisecond

// While one master of three hangs, listings and statistics contain the data of the others
// and name the node. That holds for the first call, and for four seconds after it. Once the
// node answers again, nothing is missing.
func TestAPIAnswersWithoutHangingNode(t *testing.T) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, _ hit) { w.WriteHeader(http.StatusGone) })
	c := newNodes(t, 3, 0, "cluster-node-timeout 30000", "cluster-require-full-coverage no")
	space := tagged(shardsOnNodes)
	node := c.holding(t, space.Base(3))
	tokens := []string{"NOTIFIER_CLIENTS=ops,one", "NOTIFIER_CLIENT_OPS_TOKEN=" + strings.Repeat("o", 32), "NOTIFIER_CLIENT_ONE_TOKEN=" +
		strings.Repeat("1", 32), "NOTIFIER_CLIENT_ONE_PREFIX=app1",
		"NOTIFIER_CLIENT_OPS_ROLE=admin", "NOTIFIER_CLIENT_ONE_ROLE=operate"}
	s := launch(t, c.url, []string{"NOTIFIER_REDIS_MODE=cluster", fmt.Sprintf("NOTIFIER_SHARDS=%d", shardsOnNodes)}, wide(rec.url), tokens)
	s.api = s.as(strings.Repeat("o", 32))
	bad := c.shardsOf(t, node, shardsOnNodes)
	ctx := t.Context()
	const n = 120
	s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:pay:dead:%d", i), time.Now()) })
	there := 0
	for i := range n {
		if bad[space.Shard(fmt.Sprintf("app1:pay:dead:%d", i))] {
			there++
		}
	}
	await(t, waitTimeout, "all dead", func() bool { return s.numbers("pay").Dead == n })
	if there == 0 || there == n {
		t.Fatalf("%d of %d are on the node", there, n)
	}
	list := func(api *client.Client) (keys map[string]bool, missing []string) {
		t.Helper()
		keys = map[string]bool{}
		for q := (client.Query{State: client.Dead, Limit: 25}); ; {
			begun := time.Now()
			p, err := api.List(ctx, q)
			if took := time.Since(begun); err != nil || took > soon {
				t.Fatalf("a page after %s: %v", took, err)
			}
			for _, x := range p.Items {
				if keys[x.Key] {
					t.Errorf("%s is listed twice", x.Key)
				}
				keys[x.Key] = true
			}
			missing = append(missing, p.Missing...)
			if q.Cursor = p.Cursor; q.Cursor == "" {
				slices.Sort(missing)
				return keys, slices.Compact(missing)
			}
		}
	}
	node.Pause()
	paused := time.Now()
	want := []string{node.Addr()}
	begun := time.Now()
	stats, err := s.api.Stats(ctx) // the first call that meets the hanging node
	if took := time.Since(begun); err != nil || took > soon {
		t.Fatalf("the first answer after %s: %v", took, err)
	}
	for time.Since(paused) < 4*time.Second {
		if !slices.Equal(stats.Missing, want) || stats.Routes[0].Dead != int64(n-there) {
			t.Fatalf("%s after the node was stopped: %v missing, %d dead; want %v and %d", time.Since(paused), stats.Missing, stats.Routes[0].Dead,
				want, n-there)
		}
		if keys, missing := list(s.api); len(keys) != n-there || !slices.Equal(missing, want) {
			t.Fatalf("%d listed without %v, want %d without %v", len(keys), missing, n-there, want)
		}
		begun = time.Now()
		if stats, err = s.api.Stats(ctx); err != nil || time.Since(begun) > soon {
			t.Fatalf("after %s: %v", time.Since(begun), err)
		}
	}
	scoped := s.as(strings.Repeat("1", 32))
	if keys, missing := list(scoped); len(keys) != n-there || !slices.Equal(missing, []string{"a node of Redis"}) {
		t.Errorf("a client with a prefix: %d listed without %v", len(keys), missing)
	}
	for _, args := range [][]string{{"stats"}, {"list", "--state", "dead", "--all"}} {
		var out, errs bytes.Buffer
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = append(os.Environ(), "NOTIFIER_URL="+s.url, "NOTIFIER_TOKEN="+strings.Repeat("o", 32))
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil || !strings.Contains(errs.String(), node.Addr()) {
			t.Errorf("%v: %v\n%s%s", args, err, out.String(), errs.String())
		}
	}
	// A redrive covers the shards of the other masters only.
	r, err := s.api.RedriveRoute(ctx, "pay", client.Bulk{})
	if err != nil || !slices.Equal(r.Missing, want) || r.Redriven == 0 || r.Redriven > n-there {
		t.Errorf("%+v, %v: want at most %d redriven without %v", r, err, n-there, want)
	}
	node.Unpause()
	await(t, waitTimeout, "nothing missing", func() bool {
		keys, missing := list(s.api)
		return len(keys) == n && len(missing) == 0
	})
}

// The pages do the same; without clients, no session is needed.
func TestPagesAnswerWithoutHangingNode(t *testing.T) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, _ hit) { w.WriteHeader(http.StatusGone) })
	for _, which := range []string{tagged(shardsOnNodes).Base(3), "notifier:{fleet}:signs"} {
		c, s, node, space := onNodes(t, rec, which)
		bad := c.shardsOf(t, node, shardsOnNodes)
		const n = 60
		s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:pay:dead:%d", i), time.Now()) })
		there := 0
		for i := range n {
			if bad[space.Shard(fmt.Sprintf("app1:pay:dead:%d", i))] {
				there++
			}
		}
		await(t, waitTimeout, "all dead", func() bool { return s.numbers("pay").Dead == n })
		node.Pause()
		get := func(path string) string {
			t.Helper()
			begun := time.Now()
			res, err := http.Get(s.url + path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			b, err := io.ReadAll(res.Body)
			if took := time.Since(begun); err != nil || res.StatusCode != 200 || took > soon {
				t.Errorf("%s: %d after %s, %v", path, res.StatusCode, took, err)
			}
			t.Logf("%s: %s", path, time.Since(begun))
			return string(b)
		}
		said := "Redis is unavailable at " + node.Addr()
		for range 3 {
			for _, path := range []string{"/ui/", "/ui/notices", "/ui/dead", "/ui/dead/group?" + url.Values{"route": {"pay"}, "reason": {"gone"},
				"host": {"127.0.0.1"}}.Encode()} {
				if page := get(path); !strings.Contains(page, said) {
					t.Errorf("%s does not say %q", path, said)
				}
			}
			get("/ui/receivers")
		}
		if page := get("/ui/dead"); !strings.Contains(page, fmt.Sprintf(`data-label="Count">%d</td>`, n-there)) {
			t.Errorf("the group has not %d of %d dead letters", n-there, n)
		}
		if v := s.metric("notifier_shards_missing"); int(v) != len(bad) {
			t.Errorf("notifier_shards_missing is %v, want %d", v, len(bad))
		}
		node.Unpause()
		await(t, waitTimeout, "nothing missing", func() bool { return !strings.Contains(get("/ui/dead"), said) })
	}
}

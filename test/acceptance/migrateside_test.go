package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/client"
	"notifier/internal/keys"
)

// house is one of the two sides of a migration: a Redis, and the instances on it.
type house struct {
	t     *testing.T
	redis redis.UniversalClient
	url   string
	env   []string // beside the address
	mode  string

	mu  sync.Mutex
	all []*service
}

func newHouse(t *testing.T, c redis.UniversalClient, url, mode string, env ...string) *house {
	return &house{t: t, redis: c, url: url, env: append(env, "NOTIFIER_REDIS_MODE="+mode), mode: mode}
}

// open starts an instance more.
func (h *house) open(routes ...string) {
	h.t.Helper()
	s := launch(h.t, h.url, h.env, routes)
	h.mu.Lock()
	h.all = append(h.all, s)
	h.mu.Unlock()
}

// killLast takes the last instance out of what producers ask, and kills it.
func (h *house) killLast() {
	h.t.Helper()
	h.mu.Lock()
	s := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	h.mu.Unlock()
	s.kill()
}

// any is one of the instances.
func (h *house) any() *service {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[rand.IntN(len(h.all))]
}

// migrated is what `notifier migrate --json` says.
type migrated struct {
	Moved    int  `json:"moved"`
	Claimed  int  `json:"claimed"`
	Reported int  `json:"await_reports"`
	Soon     int  `json:"due_soon"`
	Open     bool `json:"open"`
	Missing  int  `json:"missing_count"`
	Checked  int  `json:"checked"`
}

// mover is `notifier migrate` from this side to another. It waits up to 2 s for attempts in
// flight and for notices due soon, which is less than by default.
func (h *house) mover(to *house) *exec.Cmd {
	c := exec.Command(binary, "migrate", "--json", "--wait", "2s", "--to", to.asFile(), "--to-mode", to.mode)
	c.Env = environment([][]string{{"NOTIFIER_REDIS_URL=" + h.url}, h.env})
	return c
}

// migrate runs it until it has come to its end.
func (h *house) migrate(to *house) (done migrated) {
	h.t.Helper()
	await(h.t, 4*waitTimeout, "the migration", func() bool {
		var said strings.Builder
		c := h.mover(to)
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			h.t.Logf("%v: %s", err, said.String())
			return false
		}
		if err := json.Unmarshal(out, &done); err != nil {
			h.t.Fatalf("%v: %s", err, out)
		}
		return true
	})
	h.t.Logf("%+v", done)
	if !done.Open || done.Missing > 0 {
		h.t.Errorf("the migration has come to %+v", done)
	}
	return done
}

// killedMover runs it and kills it at a random point.
func (h *house) killedMover(to *house, random *rand.Rand) {
	h.t.Helper()
	c := h.mover(to)
	if err := c.Start(); err != nil {
		h.t.Fatal(err)
	}
	time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // sleep: a random point
	_ = c.Process.Kill()                                            // it may have ended
	_ = c.Wait()                                                    // it reports the signal
}

// space returns the key space of this side, from its notifier:meta.
func (h *house) space() keys.Space {
	h.t.Helper()
	meta := h.redis.HGetAll(h.t.Context(), keys.Space{Namespace: "notifier"}.Meta()).Val()
	s := keys.Space{Namespace: "notifier"}
	if _, err := fmt.Sscan(meta["shards"], &s.Shards); err != nil {
		h.t.Fatalf("%v: %v", meta, err)
	}
	if meta["tags"] != "" {
		s.Tags = strings.Split(meta["tags"], ",")
	}
	return s
}

// kept is what Redis itself says of each notice under some prefixes: the record, its
// scores, and its timer with the time at which that expires.
func (h *house) kept(prefixes ...string) map[string]string {
	h.t.Helper()
	ctx, s := context.WithoutCancel(h.t.Context()), h.space()
	out := map[string]string{}
	var all []string
	for _, prefix := range prefixes {
		for shard := range s.Shards {
			p := keys.Partition{Prefix: prefix, Shard: shard}
			for key, text := range h.redis.HGetAll(ctx, s.Records(p)).Val() {
				out[key] += text
				all = append(all, key)
			}
			for kind, name := range map[string]string{"due": s.Shadow(p), "dead": s.Dead(p), "settled": s.Settled(p)} {
				for _, z := range h.redis.ZRangeWithScores(ctx, name, 0, -1).Val() {
					if kind == "due" {
						z.Score = math.Floor(z.Score) // the fraction marks a missing timer, which is compared below
					}
					out[z.Member.(string)] += fmt.Sprintf(" %s %.3f", kind, z.Score)
				}
			}
		}
	}
	for len(all) > 0 {
		some := all[:min(500, len(all))]
		all = all[len(some):]
		values, expires := make([]*redis.StringCmd, len(some)), make([]*redis.DurationCmd, len(some))
		_, err := h.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, k := range some {
				values[i], expires[i] = p.Get(ctx, k), p.PExpireTime(ctx, k)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			h.t.Fatal(err)
		}
		for i, k := range some {
			if values[i].Err() == nil {
				out[k] += fmt.Sprintf(" timer %q until %d", values[i].Val(), expires[i].Val().Milliseconds())
			}
		}
	}
	return out
}

// paused are the prefixes that are.
func (h *house) paused() string {
	h.t.Helper()
	list := h.redis.SMembers(h.t.Context(), h.space().Paused()).Val()
	slices.Sort(list)
	return strings.Join(list, " ")
}

// told returns the API's answer for a notice, field by field.
func (h *house) told(key string) string {
	h.t.Helper()
	n, err := h.any().api.Get(h.t.Context(), key)
	if err != nil {
		h.t.Fatalf("%s: %v", key, err)
	}
	return string(n.JSON)
}

// isMoved reports whether a call was refused because its notice is on the other side.
func isMoved(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Status == 503 && p.Type == "moved"
}

// asFile is an address in a file, as --to takes it.
func (h *house) asFile() string {
	h.t.Helper()
	name := h.t.TempDir() + "/url"
	if err := os.WriteFile(name, []byte(h.url+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return "@" + name
}

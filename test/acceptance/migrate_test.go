//go:build fault

package acceptance

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/test/record"

	"notifier/internal/redistest"
)

// kept is what a Redis keeps under a prefix: of each key the record, and its scores.
func kept(t *testing.T, c redis.UniversalClient, prefix string) map[string]string {
	t.Helper()
	ctx, meta := context.Background(), c.HGetAll(t.Context(), space.Meta()).Val()
	var shards int
	if _, err := fmt.Sscan(meta["shards"], &shards); err != nil {
		t.Fatal(err)
	}
	s := keys.Space{Namespace: space.Namespace, Shards: shards}
	if meta["tags"] != "" {
		s.Tags = strings.Split(meta["tags"], ",")
	}
	out := map[string]string{}
	for shard := range shards {
		p := keys.Partition{Prefix: prefix, Shard: shard}
		for key, text := range c.HGetAll(ctx, s.Records(p)).Val() {
			out[key] += text
		}
		for _, name := range []string{s.Shadow(p), s.Dead(p), s.Settled(p)} {
			kind := strings.Split(name, ":")[2]
			for _, z := range c.ZRangeWithScores(ctx, name, 0, -1).Val() {
				out[z.Member.(string)] += fmt.Sprintf(" %s %.3f", kind, z.Score)
			}
		}
	}
	return out
}

// A Redis alone is left for a cluster, and that for the first one, while both deliver: the
// mover killed at random points, an instance killed and one stopped. What waits, is
// settled or dead is the same to the byte afterwards, and what falls due meanwhile comes
// from one side.
func TestMigrateToAClusterAndBack(t *testing.T) {
	far := record.Sized(20_000, 100_000)
	rec := listen(t, nil)
	db := redistest.Start(t)
	_, cluster, url := masters(t, 3)
	routes := route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=2s")
	clustered := []string{"NOTIFIER_REDIS_MODE=cluster"}
	a, b := launch(t, db.URL(), routes), launch(t, db.URL(), routes)
	due := time.Now().Add(time.Hour)
	a.scheduleAll(far, func(i int) string { return line(fmt.Sprintf("app1:pay:far:%d", i), due) })
	for i := range 200 { // some are settled
		if _, err := a.api.Cancel(t.Context(), fmt.Sprintf("app1:pay:far:%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	before := kept(t, db.Client(), "app1:pay")
	const near = 3000
	at := time.Now()
	a.scheduleAll(near, func(i int) string {
		return line(fmt.Sprintf("app1:pay:near:%d", i), at.Add(3*time.Second+time.Duration(i)*4*time.Millisecond))
	})
	migrate := func(from []string, to ...string) *exec.Cmd {
		c := exec.Command(binary, append([]string{"migrate", "--max-skew", "50ms"}, to...)...)
		c.Env = append([]string{"PATH=" + os.Getenv("PATH")}, from...)
		return c
	}
	random := rand.New(rand.NewPCG(uint64(record.Seed(t)), 1))
	there := func(from []string, to ...string) {
		t.Helper()
		for range 5 {
			c := migrate(from, to...)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond) // sleep: a random point
			_ = c.Process.Kill()
			_ = c.Wait() // it reports the signal
		}
		var said string
		await(t, waitTimeout, "the migration", func() bool {
			out, err := migrate(from, to...).CombinedOutput()
			said = string(out)
			if err != nil {
				t.Logf("%v: %s", err, out)
			}
			return err == nil
		})
		t.Log(said)
	}
	same := func(c redis.UniversalClient) {
		t.Helper()
		now, wrong := kept(t, c, "app1:pay"), 0
		for key, text := range before {
			if now[key] != text {
				if wrong++; wrong < 10 {
					t.Errorf("%s: %s, was %s", key, cmp.Or(now[key], "gone"), text)
				}
			}
		}
		t.Logf("%d of %d are not the same", wrong, len(before))
	}
	fresh := launch(t, url, clustered, routes)
	b.kill()
	there([]string{"NOTIFIER_REDIS_URL=" + db.URL()}, "--to", url, "--to-mode", "cluster")
	same(cluster)
	back := t.TempDir() + "/url"
	if err := os.WriteFile(back, []byte(db.URL()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	there([]string{"NOTIFIER_REDIS_URL=" + url, "NOTIFIER_REDIS_MODE=cluster"}, "--to", "@"+back)
	same(db.Client())
	rec.wait(waitTimeout, near)
	doubled, early := 0, 0
	for _, hits := range rec.byKey() {
		if len(hits) > 1 {
			doubled++
		}
		if hits[0].late() < 0 {
			early++
		}
	}
	if n := len(rec.byKey()); n != near || doubled > 0 || early > 0 {
		t.Errorf("%d came of %d, %d twice, %d early", n, near, doubled, early)
	}
	_ = fresh
}

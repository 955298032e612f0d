//go:build fault

package acceptance

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// A host is erased whose notices have rows, are settled in Redis, and wait in the outbox
// for a database that was unavailable. During the erasure the instances are killed one after
// the other. The erasure is repeated after each error. It then leaves nothing of the host,
// and removes nothing else.
func TestErasureIsCompleteAfterKills(t *testing.T) {
	const n = 1500
	rec, db, pg := listen(t, nil), newRedis(t), testkit.StartPostgres(t)
	database := pg.Database()
	_, port, _ := strings.Cut(strings.TrimPrefix(rec.url, "http://"), ":")
	begin := func() *service {
		return launch(t, db.URL(), route("pay", "app1", "notice", "ALLOW=127.0.0.1,localhost", "CONCURRENCY=64", "HOST_CONCURRENCY=64"),
			[]string{"NOTIFIER_HISTORY_URL=" + database, "NOTIFIER_TAKEOVER=1s"})
	}
	first, second := begin(), begin()
	total := 0
	notices := func(s *service, kind string) {
		t.Helper()
		s.scheduleAll(2*n, func(i int) string {
			host := []string{"localhost", "127.0.0.1"}[i%2]
			return fmt.Sprintf(`{"key":"app1:%s:%s:%d","url":"http://%s:%s/","body":{"at":%q}}`, strings.ReplaceAll(host, ".", "-"), kind, i, host,
				port, host)
		})
		total += 2 * n
		rec.wait(waitTimeout, total)
	}
	notices(first, "rows")
	await(t, waitTimeout, "they are rows", func() bool { return db.waiting() == 0 })
	pg.Stop()
	notices(second, "waiting")
	await(t, waitTimeout, "endings wait in Redis", func() bool {
		return second.numbers("pay").Pending == 0 && db.waiting() == 2*n
	})
	erase := []string{"erase", "--host", "localhost"}
	says(t, second.exec(1, erase...), "the history's database does not answer")
	pg.Again()
	// Each is killed at another moment of the erasure.
	for _, s := range []*service{first, second} {
		c, o := s.run(erase...)
		time.Sleep(10 * time.Millisecond) // sleep: lets the erasure begin; its progress at the kill is random
		s.kill()
		if err := c.Wait(); err != nil && !isExit(err) {
			t.Fatal(err)
		}
		t.Logf("during the kill: %s", strings.TrimSpace(o.String()))
	}
	third := begin()
	t.Log(strings.TrimSpace(third.exec(0, erase...)))
	await(t, waitTimeout, "the database has confirmed all", func() bool { return db.waiting() == 0 })
	check := func(ofHost int) {
		t.Helper()
		left, other := 0, 0
		for name, times := range rows(t, database) {
			switch {
			case times != 1:
				t.Errorf("%s has %d rows", name, times)
			case strings.HasPrefix(name, "app1:localhost:"):
				left++
			default:
				other++
			}
		}
		if left != ofHost || other != total/2 {
			t.Errorf("%d rows of the host, want %d; %d others, want %d", left, ofHost, other, total/2)
		}
	}
	check(0)
	for _, key := range db.names() {
		if raw := db.Client().Dump(t.Context(), key).Val(); strings.Contains(raw, "//localhost:") || strings.Contains(key, "app1:localhost:") {
			t.Errorf("%s in Redis contains the host", key)
		}
	}
	entries := db.Client().XRange(t.Context(), db.space().Audit("", "rare"), "-", "+").Val()
	if len(entries) == 0 {
		t.Error("the erasures are not in the audit")
	}
	for _, e := range entries {
		if strings.Contains(fmt.Sprint(e.Values), "localhost") {
			t.Errorf("the audit contains the host: %v", e.Values)
		}
	}
	// What ends later is kept.
	notices(third, "later")
	await(t, waitTimeout, "they are rows", func() bool {
		return third.numbers("pay").Pending == 0 && db.waiting() == 0
	})
	check(n)
}

func isExit(err error) bool {
	_, ok := err.(*exec.ExitError)
	return ok
}

package engine

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// secretTicks starts an instance that checks the content of each occurrence.
func secretTicks(t *testing.T, srv *testkit.Redis, g *got) *world {
	t.Helper()
	return start(t, srv, g, func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), forgottenAge, zap.NewNop(), 2
	}, sealedRoute(seal.PerAudience))
}

func checked(t *testing.T) *got {
	g := newGot(1000)
	g.reply = func(n *notice.Notice) notice.Result {
		if string(n.Body) != card {
			t.Errorf("%s: the handler got %q", n.Key, n.Body)
		}
		return notice.DeliveredResult(200)
	}
	return g
}

// sealedTicks defines sealed recurring notices of two audiences with a tick each second, and one whose audience is forgotten.
func (w *world) sealedTicks(t *testing.T, n, times int) (list []string) {
	t.Helper()
	for i := range n {
		d := secretEvery(fmt.Sprintf("app1:a:b:n%d", i), audienceOf(i))
		d.Times, d.Missed, d.MissedMost = times, recur.MissedAll, 1000
		list = append(list, w.define(t, d).Key)
	}
	d := secretEvery(books, "gone")
	d.Paused = true
	w.define(t, d)
	w.forget(t, "gone")
	return list
}

func TestReshardOfSealedDefinitions(t *testing.T) {
	t.Parallel()
	const times = 5
	srv, g := testkit.SharedRedis(t), checked(t)
	a := secretTicks(t, srv, g)
	b := secretTicks(t, srv, g)
	list := a.sealedTicks(t, 20, times)
	for _, to := range []int{5, 3} {
		occurrences(t, g, list[0], 6-to)
		if done, err := move.Reshard(t.Context(), move.Options{Conn: a.o.Conn, Namespace: srv.Namespace(), To: to}); err != nil || !done.Changed {
			t.Fatalf("%+v, %v", done, err)
		}
	}

	consecutive(t, b, g, list, times)
	if _, err := b.Recurrences().RunNow(t.Context(), books); vault.ForgottenAt(err).IsZero() {
		t.Errorf("of a forgotten audience: %v", err)
	}
}

func TestMigrateOfSealedDefinitions(t *testing.T) {
	t.Parallel()
	const times = 5
	from, to, g := testkit.StartRedis(t), testkit.StartRedis(t), checked(t)
	a, b := secretTicks(t, from, g), secretTicks(t, to, g)
	list := a.sealedTicks(t, 20, times)
	occurrences(t, g, list[0], 1)
	done, err := move.Migrate(t.Context(), move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"},
		Namespace: from.Namespace(), MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second})
	if err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}

	consecutive(t, b, g, list, times)
	if _, err := b.Recurrences().RunNow(t.Context(), books); vault.ForgottenAt(err).IsZero() {
		t.Errorf("of a forgotten audience: %v", err)
	}
	testkit.CheckSecrets(t, []string{card}, append(everything(t, a), everything(t, b)...)...)
}

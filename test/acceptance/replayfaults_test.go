//go:build fault

package acceptance

import (
	"path/filepath"
	"syscall"
	"testing"

	"notifier/internal/testkit"
)

// The first driver of a replay of 10,000 notices is killed. The second is paused until a
// third has completed the replay, and then continues.
func TestReplayOfTenThousandIsSentOnce(t *testing.T) {
	db := newRedis(t)
	x := &replaying{t: t, n: 10_000, database: testkit.PostgresDatabase(t), redis: db.URL(), waiting: db.waiting}
	x.killed(x.frozen)
}

// frozen pauses the second instance during the replay, and lets a third complete it.
func (x *replaying) frozen(second *service, begin func() *service, left func() int64) *service {
	t := x.t
	before := left()
	await(t, waitTimeout, "the second goes on", func() bool { return left() < before-int64(x.n)/10 })
	second.freeze()
	third := begin()
	await(t, 2*waitTimeout, "the third has taken over", func() bool {
		list, err := third.api.Replays(t.Context())
		return err == nil && len(list.Items) == 1 && list.Items[0].State == "done"
	})
	second.signal(syscall.SIGCONT)
	await(t, waitTimeout, "the second works again", second.healthy)
	return third
}

// The same on a Redis Cluster. One master is paused for a while, so that some shards of a
// batch are sent and others are not.
func TestReplayInClusterIsSentOnce(t *testing.T) {
	const shards = 6
	c := newNodes(t, 3, 0)
	s := tagged(shards)
	x := &replaying{t: t, n: 3000, database: "sqlite://" + filepath.Join(t.TempDir(), "history.db"), redis: c.url,
		env:     []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6"},
		waiting: func() int64 { return endings(t.Context(), c.client, s) }}
	x.killed(func(second *service, begin func() *service, left func() int64) *service {
		before := left()
		await(t, waitTimeout, "the second goes on", func() bool { return left() < before })
		node := c.holding(t, s.Base(0))
		if of := c.shardsOf(t, node, shards); len(of) == shards {
			t.Fatal("one master has all the shards")
		}
		node.Pause()
		stuck := func() float64 { return second.metric("notifier_redis_errors_total") }
		from := stuck()
		await(t, waitTimeout, "the second has met the master", func() bool { return stuck() > from })
		node.Unpause()
		return x.frozen(second, begin, left)
	})
}

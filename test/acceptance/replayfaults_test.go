//go:build fault

package acceptance

import (
	"syscall"
	"testing"

	"notifier/internal/pgtest"
)

// Of a replay of 10,000 the first driver is killed, and the second stands still
// until a third has done its work, and then awakes.
func TestAReplayOfTenThousandIsSentOnce(t *testing.T) {
	replayKilled(t, pgtest.Database(t), 10_000, func(second *service, begin func() *service, left func() int64) *service {
		before := left()
		await(t, waitTimeout, "the second goes on", func() bool { return left() < before-1000 })
		second.freeze()
		third := begin()
		await(t, 2*waitTimeout, "the third has taken over", func() bool {
			list, err := third.api.Replays(t.Context())
			return err == nil && len(list.Items) == 1 && list.Items[0].State == "done"
		})
		second.signal(syscall.SIGCONT)
		await(t, waitTimeout, "the second works again", second.healthy)
		return third
	})
}

package acceptance

import (
	"net/http"
	"syscall"
	"testing"
	"time"
)

// During NOTIFIER_SHUTDOWN_DELAY the program is not ready and goes on delivering. A second
// signal ends the delay, and the program exits with 0.
func TestSecondSignalEndsTheShutdownDelay(t *testing.T) {
	t.Parallel()
	shop := listen(t, nil)
	s := launch(t, newRedis(t).URL(), append(route("pay", "app1:pay", shop.url), "NOTIFIER_SHUTDOWN_DELAY=10m"))
	s.signal(syscall.SIGTERM)
	await(t, waitTimeout, "503 at /readyz", func() bool {
		res, err := http.Get(s.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusServiceUnavailable && res.Close
	})

	due := time.Now().Add(100 * time.Millisecond)
	s.scheduleAll(1, func(int) string { return line("app1:pay:order:1", due) })
	shop.wait(waitTimeout, 1)
	if s.ended() {
		t.Fatal("it ended before the delay was over")
	}
	if code, took := s.stop(waitTimeout); code != 0 || took > time.Minute {
		t.Errorf("exit code %d after %s", code, took)
	}
}

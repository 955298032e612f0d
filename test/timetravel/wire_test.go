package timetravel

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"notifier/internal/embedded"
)

var errRefused = errors.New("connection refused")

// cable makes the connections of one instance.
type cable struct {
	em *embedded.Emulation

	mu    sync.Mutex
	links map[*link]struct{}
	down  bool
	dead  bool          // permanent
	gate  chan struct{} // closed = bytes pass
}

func newWire(em *embedded.Emulation) *cable {
	gate := make(chan struct{})
	close(gate)
	return &cable{em: em, links: map[*link]struct{}{}, gate: gate}
}

type link struct{ cut func() }

// dial makes a connection.
func (w *cable) dial() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.dead {
		return nil, errRefused
	}
	l := &link{}
	c, cut, err := w.em.Pipe(w.pass, func() {
		w.mu.Lock()
		delete(w.links, l)
		w.mu.Unlock()
	})
	if err != nil {
		return nil, err
	}
	l.cut = cut
	w.links[l] = struct{}{}
	return c, nil
}

// poolSize is more than the connections in use: the timers of waits for a free connection are kept for other bubbles.
const poolSize = 10_000

// client returns a client as wire.Open sets it up.
func (w *cable) client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer:     func(context.Context, string, string) (net.Conn, error) { return w.dial() },
		MaxRetries: -1, DialTimeout: 2 * time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second,
		ContextTimeoutEnabled: true, PoolSize: poolSize, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
}

// Regression test: after so many failed dials, the client's goroutine that probes Redis outlived the bubble.
func TestProbeOfClosedClientEndsInItsBubble(t *testing.T) {
	travel(t, func(t *testing.T, w *world) {
		wire := newWire(w.em)
		wire.kill()
		c := wire.client()
		for range poolSize {
			if err := c.Ping(t.Context()).Err(); err == nil {
				t.Fatal("a dead instance reached Redis")
			}
		}

		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// pass returns when bytes may pass.
func (w *cable) pass() {
	w.mu.Lock()
	gate := w.gate
	w.mu.Unlock()
	<-gate
}

// cut closes all connections; data in transit are lost.
func (w *cable) cut() {
	w.mu.Lock()
	links := make([]*link, 0, len(w.links))
	for l := range w.links {
		links = append(links, l)
	}
	w.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// away cuts, and refuses connections for a time.
func (w *cable) away(d time.Duration) {
	w.set(&w.down, true)
	w.cut()
	time.Sleep(d)
	w.set(&w.down, false)
}

// kill cuts all connections permanently, like the end of a process.
func (w *cable) kill() {
	w.set(&w.dead, true)
	w.cut()
}

func (w *cable) set(b *bool, to bool) {
	w.mu.Lock()
	*b = to
	w.mu.Unlock()
}

// hold lets no byte pass for a time, and then all that were sent: a network that
// is half open, or a process that was stopped.
func (w *cable) hold(d time.Duration) {
	gate := make(chan struct{})
	w.mu.Lock()
	w.gate = gate
	w.mu.Unlock()
	time.Sleep(d)
	close(gate)
}

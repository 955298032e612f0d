package app

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// leaving is true from the first signal to stop. During NOTIFIER_SHUTDOWN_DELAY the process
// serves and delivers as before, and load balancers learn that they should not send calls.
type leaving struct{ atomic.Bool }

// handler answers /readyz with 503 while the process is leaving, and closes the connection
// of each response.
func (l *leaving) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.Load() {
			next.ServeHTTP(w, r)
			return
		}

		w.Header().Set("Connection", "close")
		if r.URL.Path != "/readyz" {
			next.ServeHTTP(w, r)
			return
		}

		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusServiceUnavailable)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, `{"ready":false,"reasons":["this instance is shutting down"]}`+"\n")
		}
	})
}

// delay returns a context that ends NOTIFIER_SHUTDOWN_DELAY after ctx, or when Hurry is
// closed. cancel ends it at once.
func (p *Process) delay(ctx context.Context) (delayed context.Context, cancel context.CancelFunc) {
	wait := p.o.Config.ShutdownDelay
	if wait <= 0 {
		return context.WithCancel(ctx)
	}

	delayed, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer end()
		p.leave.Store(true)
		p.o.Logger.Info("no longer ready, delivering until the shutdown delay is over", zap.Duration("delay", wait))
		select {
		case <-time.After(wait):
		case <-p.o.Hurry:
		case <-delayed.Done():
		}
	})
	return delayed, func() { stop(); end() }
}

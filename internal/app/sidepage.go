package app

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
)

// sidePage is an HTTP server without tokens on a separate address: that of the metrics, or
// that of the profiles. A nil one serves nothing.
type sidePage struct {
	name   string // in errors
	server *http.Server
	listen net.Listener
}

// listenBeside takes an address at once, so that an occupied one is reported at start. An
// empty address makes a nil sidePage. The error names the variable.
func listenBeside(variable, address, name string, handler http.Handler) (*sidePage, error) {
	if address == "" {
		return nil, nil
	}

	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}

	return &sidePage{name: name, server: api.Server(handler, address), listen: l}, nil
}

// metricsOnly answers GET /metrics and the key set and nothing else, because callers of this
// address are not authenticated.
func metricsOnly(page, keySet http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	mux.Handle("GET "+api.KeySetPath, keySet)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this address serves GET /metrics and GET "+api.KeySetPath+" alone; the API is at NOTIFIER_LISTEN", http.StatusNotFound)
	})
	return mux
}

// profiles serves /debug/pprof/ to requests for a loopback host. It refuses other hosts, so that a web page whose name
// resolves to this machine cannot read profiles. Answers have no write deadline.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !auth.IsLoopback(r.Host) {
			http.Error(w, "profiles are served to loopback hosts only, such as 127.0.0.1", http.StatusForbidden)
			return
		}

		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the server's own connections support it
		mux.ServeHTTP(w, r)
	})
}

func (p *sidePage) addr() string {
	if p == nil {
		return ""
	}
	return p.listen.Addr().String()
}

// serve returns after close.
func (p *sidePage) serve() error {
	if p == nil {
		return nil
	}
	if err := p.server.Serve(p.listen); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", p.name, err)
	}

	return nil
}

// close ends the server and the requests in flight. Scrapes and profiles can be repeated.
func (p *sidePage) close() {
	if p != nil {
		_ = p.server.Close()
		_ = p.listen.Close() // if it was never served
	}
}

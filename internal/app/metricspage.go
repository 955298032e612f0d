package app

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"notifier/internal/api"
)

// metricsPage serves /metrics on an address of its own, without a token. A nil
// one serves nothing.
type metricsPage struct {
	server *http.Server
	listen net.Listener
}

// listenForMetrics takes the address, so that one that is taken is told at once.
func listenForMetrics(address string, page http.Handler) (*metricsPage, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := api.Server(metricsOnly(page), address)
	s.WriteTimeout = 30 * time.Second // a page is some KB
	return &metricsPage{server: s, listen: l}, nil
}

// metricsOnly answers GET /metrics and nothing else: nobody who reaches this
// address has shown who he is.
func metricsOnly(page http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this address serves GET /metrics alone; the API is at NOTIFIER_LISTEN", http.StatusNotFound)
	})
	return mux
}

func (p *metricsPage) addr() string {
	if p == nil {
		return ""
	}
	return p.listen.Addr().String()
}

func (p *metricsPage) serve() error {
	if p == nil {
		return nil
	}
	if err := p.server.Serve(p.listen); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

func (p *metricsPage) close() {
	if p != nil {
		_ = p.server.Close() // a scrape that is cut off comes again
	}
}

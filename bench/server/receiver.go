package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// KeyHeader carries a job's id in a callback.
const KeyHeader = "Notifier-Key"

// Receiver is an HTTP server that takes callbacks and answers 200 at once.
type Receiver struct {
	URL string
	srv *http.Server
	end chan error
}

// Receive starts a receiver; handle gets the id of each callback before its
// body is read.
func Receive(handle func(id string)) (*Receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the receiver: %w", err)
	}

	r := &Receiver{URL: "http://" + l.Addr().String() + "/callback", end: make(chan error, 1)}
	r.srv = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handle(req.Header.Get(KeyHeader))
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			http.Error(w, "cannot read the body", http.StatusBadRequest)
		}
	})}
	go func() { r.end <- r.srv.Serve(l) }()
	return r, nil
}

// Stop ends the receiver.
func (r *Receiver) Stop() error {
	if r == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := r.srv.Shutdown(ctx); err != nil {
		_ = r.srv.Close()
	}

	if err := <-r.end; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("receiver: %w", err)
	}

	return nil
}

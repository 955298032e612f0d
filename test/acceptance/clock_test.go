package acceptance

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/embedded"
)

// A machine without a battery-backed clock starts in 1970, until NTP sets the clock.
func TestUnsetClockIsLogged(t *testing.T) {
	em, err := embedded.NewEmulation()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(em.Close)
	behind := time.Until(time.Unix(5, 0))
	em.Leap(behind)
	s := launch(t, forward(t, em), route("dev", "app1", "log"))
	await(t, waitTimeout, "the fault in the log", func() bool {
		return strings.Contains(tail(s.log), "Redis's clock says 1970-01-01T00:0") &&
			strings.Contains(tail(s.log), "set the clock of the machine that Redis runs on")
	})
	_, err = s.api.Schedule(t.Context(), client.Request{Key: "app1:a:b:1"})
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != 503 || !strings.Contains(p.Detail, "Redis's clock says 1970-01-01T00:0") ||
		!strings.Contains(p.Detail, "correct the clock of the machine that Redis runs on") {
		t.Fatalf("%v", err)
	}
	em.Leap(-behind)
	await(t, waitTimeout, "the notice", func() bool {
		_, err = s.api.Schedule(t.Context(), client.Request{Key: "app1:a:b:1"})
		return err == nil
	})
	await(t, waitTimeout, "its delivery", func() bool {
		n, err := s.api.Get(t.Context(), "app1:a:b:1")
		return err == nil && n.State == "delivered"
	})
}

// forward gives an emulated Redis an address.
func forward(t *testing.T, em *embedded.Emulation) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := em.Dial()
			if err != nil {
				_ = near.Close()
				return
			}
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(way[0], way[1]) // ends with either
					_, _ = way[0].Close(), way[1].Close()
				}()
			}
		}
	}()
	return "redis://" + l.Addr().String() + "/0"
}

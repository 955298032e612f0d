package api

import (
	"net/http"
	"time"

	"notifier/internal/auth"
)

// SetTapTimes changes the times of streams that are opened later; zero leaves one as it is.
func SetTapTimes(h http.Handler, write, beat, recheck time.Duration) {
	t := &h.(*api).tapTimes
	for _, x := range []struct {
		to *time.Duration
		d  time.Duration
	}{{&t.write, write}, {&t.beat, beat}, {&t.recheck, recheck}} {
		if x.d > 0 {
			*x.to = x.d
		}
	}
}

// SetClients replaces the clients.
func SetClients(h http.Handler, list []auth.Client) { h.(*api).clients = auth.NewClients(list) }

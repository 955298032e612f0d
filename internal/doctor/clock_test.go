package doctor

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/embedded"
	"notifier/internal/notice"
)

// An unset clock of Redis is reported even if the local clock agrees, because both are often one clock.
func TestUnsetRedisClockIsReported(t *testing.T) {
	em, err := embedded.NewEmulation()
	if err != nil {
		t.Fatal(err)
	}
	defer em.Close()
	c := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return em.Dial() }})
	defer func() { _ = c.Close() }()
	examined := func() *Report {
		n := &node{run: &run{Options: Options{Now: func() time.Time { return c.Time(t.Context()).Val() }}}, c: c}
		n.clock(t.Context())
		return n.report()
	}
	examined().says(t, "clock", OK, "off this machine's")
	em.Leap(time.Until(time.Unix(5, 0)))
	examined().says(t, "clock", Error, "Redis's clock says 1970-01-01T00:00:")
	examined().says(t, "clock", Error, "set the clock of the machine that Redis runs on")
	em.Leap(notice.Earliest().Sub(time.Unix(5, 0)))
	examined().says(t, "clock", OK, "off this machine's")
}

package store

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"notifier/internal/embedded"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

// sameMs schedules, claims and settles a notice within one millisecond, loses the settle's reply,
// makes the notice due now, and repeats the settle. It returns the result of the repeated settle.
func sameMs(t *testing.T, s *Store, key string, first Settlement, op Amendment) (again Settled, f Found, within bool) {
	t.Helper()
	r := s.put(t, Request{Key: key, Content: body("x")})
	time.Sleep(10 * time.Microsecond) // which is exact in a bubble
	first.Claim = s.take(t, key, "mine")
	time.Sleep(10 * time.Microsecond)
	s.end(t, first)
	time.Sleep(10 * time.Microsecond)
	ch, err := s.Amend(t.Context(), prefix, key, op, When{})
	if err != nil || !ch.Done {
		t.Fatalf("%s: %+v, %v", op, ch, err)
	}
	within = ch.Due.UnixMilli() == r.Due.UnixMilli()
	again = s.end(t, first)
	f, err = s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	return again, f, within
}

// A redrive or fire writes a score that the notice never had, even within one millisecond.
// Otherwise a repeated settle would be accepted as if the first one had not been written.
func TestASettleMadeAgainUndoesNoRedriveOfTheSameMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		em, err := embedded.NewEmulation()
		if err != nil {
			t.Fatal(err)
		}
		defer em.Close()
		em.Leap(time.Until(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)))
		c := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return em.Dial() },
			MaxRetries: -1, DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
		defer func() { _ = c.Close() }()
		s := New(Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{prefix}, Retention: time.Hour,
			Retain: 1000})
		for i, x := range []struct {
			ending Ending
			op     Amendment
		}{{EndDead, Redrive}, {EndRetry, Fire}, {EndDeferred, Fire}, {EndPostponed, Fire}} {
			again, f, within := sameMs(t, s, fmt.Sprintf("app1:a:b:%d", i), Settlement{Ending: x.ending, After: time.Hour}, x.op)
			if !within {
				t.Fatal("it did not fall into one millisecond")
			}
			if !again.Stale || f.State != notice.Scheduled || f.Due.Sub(f.Made.Time()) > time.Millisecond {
				t.Errorf("%s, %s, and the settle again: stale %v; %s, due %s", x.ending, x.op, again.Stale, f.State, f.Due)
			}
		}
	})
}

package store

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// erase deletes a finalized notice, as package jobs does.
func (s *Store) erase(t *testing.T, p keys.Partition, key string) {
	t.Helper()
	_, err := s.c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		pipe.HDel(t.Context(), s.space.Records(p), key)
		pipe.ZRem(t.Context(), s.space.Dead(p), key)
		pipe.ZRem(t.Context(), s.space.Settled(p), key)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A dead letter is restored once and unchanged, without an entry in the outbox.
func TestDeadLettersArePutBack(t *testing.T) {
	t.Parallel()
	s, srv := historic(t, 1000)
	const key = "app1:a:b:1"
	die := func() Found {
		t.Helper()
		c := s.take(t, key, "t")
		c.Add(notice.Attempt{Number: c.NextAttempt(), At: time.Now().Truncate(time.Millisecond).UTC(), Duration: 1234 * time.Microsecond,
			Status: 500, Reason: notice.ReasonStatus5xx, Response: "no"})
		c.Reason = notice.ReasonStatus5xx
		s.end(t, Settlement{Claim: c, Ending: EndDead})
		f, err := s.Find(t.Context(), prefix, key)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	put := func(l Letter) Reply {
		t.Helper()
		r, err := s.Restore(t.Context(), partition, []Letter{l})
		if err != nil {
			t.Fatal(err)
		}
		return r[0]
	}
	s.put(t, Request{Key: key, Content: notice.Content{Body: []byte(`{"a":1}`), Headers: []notice.Header{{Name: "X", Value: "1"}},
		Ladder: notice.Ladder{}}})
	was := die()
	l := Letter{was.Notice, was.SettledAt}
	if r := put(l); r.Created || r.Err != nil || r.State != notice.Dead {
		t.Errorf("it is a dead letter already: %+v", r)
	}
	ways := map[string]func() error{
		"lost": func() error {
			return srv.Client().Del(t.Context(), s.space.Records(partition), s.space.Dead(partition), s.space.Settled(partition)).Err()
		},
		"emptied": func() error { s.erase(t, partition, key); return nil },
		"purged":  func() error { _, err := s.Amend(t.Context(), prefix, key, Purge, When{}); return err },
	}
	for _, name := range []string{"lost", "emptied", "purged"} {
		if err := ways[name](); err != nil {
			t.Fatal(err)
		}
		if r := put(l); !r.Created || r.Err != nil || r.ID() != was.ID() {
			t.Errorf("%s: %+v", name, r)
		}
		now, err := s.Find(t.Context(), prefix, key)
		want := was
		if name == "purged" { // it has ended by that too
			n, l := *now.Notice, *was.Notice
			want.Notice, want.record, l.Endings = &l, now.record, 1
			if n.Endings != 1 {
				t.Errorf("%s: it has ended %d times before", name, n.Endings)
			}
		}
		if err != nil || !reflect.DeepEqual(now, want) {
			t.Errorf("%s: %v\n%+v %+v\nwas\n%+v %+v", name, err, now, now.Notice, was, was.Notice)
		}
		if n := srv.Client().ZCard(t.Context(), s.space.Settled(partition)).Val(); n != 0 {
			t.Errorf("%s: %d are settled", name, n)
		}
	}
	// A pending, delivered or other notice under the key stays.
	if _, err := s.Amend(t.Context(), prefix, key, Redrive, When{}); err != nil {
		t.Fatal(err)
	}
	if r := put(l); !errors.Is(r.Err, ErrTaken) || r.State != notice.Scheduled {
		t.Errorf("redriven: %+v", r)
	}
	s.end(t, Settlement{Claim: s.take(t, key, "t2"), Ending: EndDelivered})
	if r := put(l); !errors.Is(r.Err, ErrTaken) || r.State != notice.Delivered {
		t.Errorf("delivered: %+v", r)
	}
	s.put(t, Request{Key: key, OnDuplicate: Replace, Content: body("new")})
	if r := put(l); !errors.Is(r.Err, ErrTaken) {
		t.Errorf("another notice: %+v", r)
	}
	if _, err := s.Amend(t.Context(), prefix, key, Cancel, When{}); err != nil {
		t.Fatal(err)
	}
	if r := put(l); !errors.Is(r.Err, ErrTaken) || r.State != notice.Cancelled {
		t.Errorf("another notice, cancelled: %+v", r)
	}
	if got, _ := s.endings(t); !slices.Equal(got, []string{"dead 1 1", "cancelled 2 1", "delivered 3 1", "cancelled 1 1"}) {
		t.Errorf("handed over: %v", got)
	}
}

// A notice under the prefix of another configuration is found, and stays there.
func TestADeadLetterIsNotPutBackBesideItself(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const key = "app1:a:b:1"
	s.put(t, Request{Key: key, Content: body("x")})
	c := s.take(t, key, "t")
	c.Reason = notice.ReasonGone
	s.end(t, Settlement{Claim: c, Ending: EndDead})
	f, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	o := s.o
	o.Prefixes = []string{prefix + ":a"}
	narrow := New(o)
	r, err := narrow.Restore(t.Context(), keys.Partition{Prefix: prefix + ":a"}, []Letter{{f.Notice, f.SettledAt}})
	if err != nil || r[0].Created || r[0].Err != nil || r[0].Route != prefix {
		t.Errorf("%+v, %v", r, err)
	}
}

// A pending notice is restored with its due time, its attempts and its webhook-id. If it exists in
// a later state, that stays.
func TestWhatWasPendingIsPutBack(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const key, late = "app1:a:b:1", "app1:a:b:2"
	var letters []Letter
	for _, k := range []string{key, late} {
		s.put(t, Request{Key: k, Content: notice.Content{Body: []byte(`{"a":1}`), Ladder: notice.Ladder{time.Hour, time.Hour}}})
		c := s.take(t, k, "t")
		c.Add(notice.Attempt{Number: c.NextAttempt(), At: time.Now().Truncate(time.Millisecond).UTC(), Duration: 1234 * time.Microsecond,
			Status: 500, Reason: notice.ReasonStatus5xx})
		s.end(t, Settlement{Claim: c, Ending: EndRetry, After: time.Hour})
		f, err := s.Find(t.Context(), prefix, k)
		if err != nil {
			t.Fatal(err)
		}
		if k == late {
			f.Due = time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
		}
		letters = append(letters, Letter{Notice: f.Notice})
	}
	was, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	restore := func() []Reply {
		t.Helper()
		r, err := s.Restore(t.Context(), partition, letters)
		if err != nil || r[0].Err != nil || r[1].Err != nil {
			t.Fatalf("%v %+v", err, r)
		}
		return r
	}
	if r := restore(); r[0].Created || r[1].Created {
		t.Errorf("both are kept: %+v", r)
	}
	if err := srv.Client().FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if r := restore(); !r[0].Created || !r[1].Created || r[1].Due.Before(letters[1].Due.Add(time.Hour)) {
		t.Errorf("%+v", r)
	}
	now, err := s.Find(t.Context(), prefix, key)
	now.score = was.score // it does not say any more that the next attempt is a retry
	if err != nil || !reflect.DeepEqual(now, was) {
		t.Errorf("%v\n%+v %+v\nwas\n%+v %+v", err, now, now.Notice, was, was.Notice)
	}
	if at, err := srv.Client().PExpireTime(t.Context(), key).Result(); err != nil || at.Milliseconds() != was.Due.UnixMilli()-1 {
		t.Errorf("the timer: %v, %v", at, err)
	}
	c := s.take(t, late, "t2") // it is due now
	if c.NextAttempt() != 2 || len(c.Attempts) != 1 || c.ID() != letters[1].ID() {
		t.Errorf("%+v", c.Notice)
	}
	s.end(t, Settlement{Claim: c, Ending: EndDelivered})
	if r := restore(); r[1].Created || r[1].State != notice.Delivered {
		t.Errorf("delivered since: %+v", r[1])
	}
	s.put(t, Request{Key: key, OnDuplicate: Replace, Content: body("new")})
	if r, err := s.Restore(t.Context(), partition, letters[:1]); err != nil || !errors.Is(r[0].Err, ErrTaken) {
		t.Errorf("another notice: %+v, %v", r, err)
	}
}

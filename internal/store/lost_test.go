package store

import (
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Regression test: after an eviction of the shadow, a notice had no state.
func TestRecordInNoSetIsLost(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const key = "app1:a:b:evicted"
	s.put(t, Request{Key: key, Delay: time.Hour})
	p := keys.Partition{Prefix: prefix}
	if err := srv.Client().Del(t.Context(), s.space.Shadow(p)).Err(); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Find(t.Context(), prefix, key); err != nil || f.State != notice.Lost || !f.HasRecord() {
		t.Errorf("without the shadow: %+v, %v", f, err)
	}
	if r := s.put(t, Request{Key: key, Delay: time.Hour, OnDuplicate: Replace}); r.Err != nil || !r.Created {
		t.Errorf("scheduled again: %+v", r)
	}
	if err := srv.Client().Del(t.Context(), s.space.Records(p)).Err(); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Find(t.Context(), prefix, key); err != nil || f.State != notice.Scheduled || f.Reason != notice.ReasonMissing {
		t.Errorf("without the record: %+v, %v", f, err)
	}
}

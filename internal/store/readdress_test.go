package store

import (
	"testing"
	"time"

	"notifier/internal/notice"
)

func TestReaddressKeepsTimeAndAttempts(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const k = "app1:a:b:1"
	asked := notice.Content{URL: "https://old.example/a", Headers: []notice.Header{{Name: "Cookie", Value: "x"}}, Body: []byte("1")}
	s.put(t, Request{Key: k, Delay: time.Hour, Content: asked})
	f, err := s.Find(t.Context(), prefix, k)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Readdress(t.Context(), f, f.Readdress(notice.Address{URL: "https://new.example/b"}), nil)
	if err != nil || !c.Done || c.State != notice.Scheduled || c.URL != "https://new.example/b" || len(c.Headers) > 0 || c.ID() != f.ID() ||
		!c.Due.Equal(f.Due) || c.Score() != f.Score() {
		t.Fatalf("%+v, %v", c, err)
	}
	if again, err := s.Readdress(t.Context(), f, f.Readdress(notice.Address{URL: "https://other.example/"}), nil); err != nil || again.Done ||
		again.URL != "https://new.example/b" {
		t.Errorf("over a change since the read: %+v, %v", again, err)
	}
	if r := s.put(t, Request{Key: k, Delay: time.Hour, Content: asked}); r.Created || len(r.Differs) > 0 {
		t.Errorf("the schedule call repeated: %+v", r)
	}

	when := When{Delay: 2 * time.Hour}
	if c, err = s.Readdress(t.Context(), c.Found, c.Readdress(notice.Address{URL: "https://third.example/"}), &when); err != nil || !c.Done ||
		c.Due.Sub(f.Due) < 59*time.Minute || c.ScheduledURL() != asked.URL {
		t.Errorf("with a new due time: %+v, %v", c, err)
	}
}

func TestReaddressLeavesClaimedNotices(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const k = "app1:a:b:1"
	s.put(t, Request{Key: k, Content: notice.Content{URL: "https://old.example/a"}})
	f, err := s.Find(t.Context(), prefix, k)
	if err != nil {
		t.Fatal(err)
	}
	claim := s.take(t, k, "t")
	for _, when := range []*When{nil, {Delay: time.Second}} {
		if c, err := s.Readdress(t.Context(), f, f.Readdress(notice.Address{URL: "https://new.example/b"}), when); err != nil || c.Done ||
			c.Before != notice.Claimed || c.URL != "https://old.example/a" {
			t.Errorf("claimed: %+v, %v", c, err)
		}
	}
	claim.Add(notice.Attempt{Number: 1, At: time.Now()})
	s.end(t, Settlement{Claim: claim, Ending: EndDelivered})
	f, _ = s.Find(t.Context(), prefix, k)
	if c, err := s.Readdress(t.Context(), f, f.Readdress(notice.Address{URL: "https://new.example/b"}), nil); err != nil || c.Done ||
		c.Before != notice.Delivered {
		t.Errorf("delivered: %+v, %v", c, err)
	}
}

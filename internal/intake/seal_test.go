package intake

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
)

// sealer is a vault. Its calls for audiences that begin with "slow" wait for each other.
type sealer struct {
	both    sync.WaitGroup
	sent    func() bool // that for the audience "later" waits until it is true
	refused error       // for the audience "forgotten"
}

func (v *sealer) Seal(_ context.Context, _ int, of seal.Subject, key string, c *notice.Content) error {
	switch {
	case of == seal.AudienceSubject("forgotten"):
		return v.refused
	case of == seal.AudienceSubject("later"):
		for !v.sent() {
			runtime.Gosched()
		}
	case strings.HasPrefix(string(of), string(seal.AudienceSubject("slow"))):
		v.both.Done()
		v.both.Wait()
	}
	c.Seal("sealed for "+key, "same", false)
	return nil
}

func (v *sealer) SealOtherwise(_ context.Context, _ int, _ seal.Subject, _ string, c *notice.Content) error {
	c.Seal("", "same", true)
	return nil
}

func (v *sealer) Forget(int) {}

// A batch seals several notices at a time, and each reply is that of its request.
func TestBatchSealsSeveralNoticesAtATime(t *testing.T) {
	routes, err := route.NewTable([]*route.Route{
		{Name: "sealed", Prefix: "app1", Target: route.Target{Kind: route.KindLog}, Seal: seal.PerAudience},
		{Name: "clear", Prefix: "app2", Target: route.Target{Kind: route.KindLog}},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &sealer{refused: errors.New("forgotten")}
	v.both.Add(2)
	fake := &fakeStore{}
	s := NewScheduler(SchedulerOptions{Store: fake, Routes: routes, Space: keys.Space{Namespace: "notifier", Shards: 1}, Vault: v})
	const n = 4 * sealTogether
	var reqs []store.Request
	var want []string
	for i := range n {
		r := store.Request{Key: fmt.Sprintf("app1:m:t:%03d", i), Content: notice.Content{Audience: "m", Body: []byte("card")}}
		switch {
		case i == 0 || i == n-1: // in the first and last part
			r.Audience = fmt.Sprint("slow", i)
		case i%10 == 3:
			r.Audience = "forgotten"
		case i%10 == 4:
			r.Key = fmt.Sprintf("app2:m:t:%03d", i)
		case i%10 == 5:
			r.Audience = ""
		}
		if r.Audience != "forgotten" && r.Audience != "" {
			want = append(want, r.Key)
		}
		reqs = append(reqs, r)
	}

	for i, r := range s.Many(t.Context(), reqs) {
		switch audience := reqs[i].Audience; {
		case audience == "forgotten":
			if !errors.Is(r.Err, v.refused) {
				t.Errorf("%d: %v", i, r.Err)
			}
		case audience == "":
			if !errors.Is(r.Err, notice.ErrInvalid) || !strings.Contains(r.Err.Error(), "audience") {
				t.Errorf("%d: %v", i, r.Err)
			}
		case r.Err != nil || r.Key != reqs[i].Key:
			t.Errorf("%d: %s, %v", i, r.Key, r.Err)
		case (reqs[i].Sealed == "sealed for "+r.Key) == strings.HasPrefix(r.Key, "app2"),
			(reqs[i].Body == nil) == strings.HasPrefix(r.Key, "app2"):
			t.Errorf("%d: stored %+v", i, reqs[i].Content)
		}
	}
	got := slices.Concat(fake.calls...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

func sealedTable(t *testing.T) *route.Table {
	t.Helper()
	routes, err := route.NewTable([]*route.Route{{Name: "sealed", Prefix: "app1", Target: route.Target{Kind: route.KindLog},
		Seal: seal.PerAudience}})
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// The first notices of a batch are sent while the last ones are being sealed.
func TestBatchIsSentWhileItIsSealed(t *testing.T) {
	routes := sealedTable(t)
	fake := &fakeStore{}
	v := &sealer{sent: func() bool {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return len(fake.trips) > 0
	}}
	s := NewScheduler(SchedulerOptions{Store: fake, Routes: routes, Space: keys.Space{Namespace: "notifier", Shards: 1}, Vault: v})
	reqs := make([]store.Request, maxBatch+1)
	for i := range reqs {
		reqs[i] = store.Request{Key: fmt.Sprintf("app1:m:t:%03d", i), Content: notice.Content{Audience: "m", Body: []byte("card")}}
	}
	reqs[maxBatch].Audience = "later"
	for i, r := range s.Many(t.Context(), reqs) {
		if r.Err != nil || r.Key != reqs[i].Key || reqs[i].Sealed == "" {
			t.Errorf("%d: %s, %v", i, r.Key, r.Err)
		}
	}
	if len(fake.trips) != 2 || len(fake.trips[0]) != maxBatch {
		t.Errorf("sent %d", len(fake.trips))
	}
}

// A call whose notices cannot be sealed sends nothing.
func TestBatchWithoutASealedNoticeSendsNothing(t *testing.T) {
	routes := sealedTable(t)
	fake, v := &fakeStore{}, &sealer{refused: errors.New("forgotten")}
	s := NewScheduler(SchedulerOptions{Store: fake, Routes: routes, Space: keys.Space{Namespace: "notifier", Shards: 1}, Vault: v})
	reqs := []store.Request{{Key: "app1:m:t:1", Content: notice.Content{Audience: "forgotten"}}}
	if out := s.Many(t.Context(), reqs); !errors.Is(out[0].Err, v.refused) || len(fake.trips) > 0 {
		t.Errorf("%v, %d trips", out[0].Err, len(fake.trips))
	}
}

package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// addressCalls records the attempts of each notice by host. The old host fails every third attempt.
type addressCalls struct {
	mu        sync.Mutex
	delivered map[string]int
	old       map[string]time.Time // the start of the last attempt at the old host
	ids       map[string]string
	wrongID   int
}

func newCalls() *addressCalls {
	return &addressCalls{delivered: map[string]int{}, old: map[string]time.Time{}, ids: map[string]string{}}
}

func (c *addressCalls) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	atOld := strings.HasPrefix(n.URL, "https://old.example/")
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.ids[n.Key]; ok && id != n.ID() {
		c.wrongID++
	}
	c.ids[n.Key] = n.ID()
	if atOld {
		c.old[n.Key] = time.Now()
		if len(n.Key)%3 == 0 {
			return notice.RetryResult(notice.ReasonStatus5xx, "moved")
		}
	}
	c.delivered[n.Key]++
	return notice.DeliveredResult(200)
}

// Notices are redirected under load by several instances, the first of which stops: none is sent to the old host after
// the redirect, none is lost, and none is delivered twice. NOTIFIER_TEST_REDIRECTED sets their number.
func TestRedirectUnderLoad(t *testing.T) {
	t.Parallel()
	n := 2000
	if text := os.Getenv("NOTIFIER_TEST_REDIRECTED"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	srv, c := testkit.SharedRedis(t), newCalls()
	rt := testRoute("r", "app1")
	rt.Target.Kind, rt.Ladder = route.KindNotice, slices.Repeat(notice.Ladder{time.Second}, 50)
	var all []*world
	for range 3 {
		all = append(all, start(t, srv, c, func(o *Options) { o.Space.Shards = 4 }, rt))
	}
	ctx := t.Context()
	content := func(i int) notice.Content {
		return notice.Content{URL: fmt.Sprintf("https://old.example/hook/%d?n=%d", i, i)}
	}
	// A part of the notices falls due during the redirect, and the rest after it.
	all[0].put(t, n, func(i int) store.Request {
		delay := time.Second + time.Duration(i%1000)*5*time.Millisecond
		if i%2 == 1 {
			delay += 7 * time.Second
		}
		return store.Request{Key: key(i), Delay: delay, Content: content(i)}
	})
	began := time.Now()
	r, err := all[0].MakeRedirect(ctx, jobs.Rule{From: "https://old.example/hook", To: "https://new.example/in"}, "")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the redirect has begun", func() bool {
		x, err := all[1].ReadRedirect(ctx, r.ID)
		return err == nil && x.Redirected > 0
	})
	all[0].stop()
	all[1].redirects.Wake()
	eventually(t, "the redirect is done", func() bool {
		r, err = all[1].ReadRedirect(ctx, r.ID)
		return err == nil && r.State == jobs.Done
	})
	done := time.Now()
	eventually(t, "all notices are delivered", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.delivered) == n
	})
	for _, w := range all[1:] {
		w.stop()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	late, twice := 0, 0
	for k, at := range c.old {
		if at.After(done) {
			late++
			t.Logf("%s was sent to the old host %s after the redirect", k, at.Sub(done))
		}
	}
	for _, times := range c.delivered {
		if times != 1 {
			twice++
		}
	}
	if late+twice+c.wrongID > 0 || r.Refused > 0 {
		t.Errorf("of %d notices %d were sent to the old host after the redirect, %d were delivered twice, %d changed their id: %+v", n, late,
			twice, c.wrongID, r)
	}
	t.Logf("%d notices: %d redirected in %s and %d passes, %d attempts at the old host before it was done, 0 after; %d delivered", n,
		r.Redirected, r.Changed.Sub(began).Round(time.Millisecond), r.Pass, len(c.old), len(c.delivered))
}

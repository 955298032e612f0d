package store

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
)

func TestForecastCountsBySpan(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	from := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	due := func(n int, at time.Time) {
		t.Helper()
		for i := range n {
			s.put(t, Request{Key: fmt.Sprintf("app1:a:%d:%d", at.UnixMilli(), i), Due: at})
		}
	}
	due(1, from.Add(-time.Millisecond))
	due(2, from)
	due(3, from.Add(time.Minute-time.Millisecond))
	due(4, from.Add(time.Minute))
	due(5, from.Add(3*time.Minute)) // behind the last span
	for _, few := range []int{0, forecastFew} {
		v, err := s.w.Run(t.Context(), forecastScript, []string{s.space.Shadow(s.space.Partition(prefix, "app1:a:b:c"))},
			[]any{from.UnixMilli(), time.Minute.Milliseconds(), 3, few})
		if err != nil || fmt.Sprint(v) != "[5 4 0]" {
			t.Errorf("read one by one up to %d: %v, %v", few, v, err)
		}
	}
	got, _, err := s.Forecast(t.Context(), prefix, from, time.Minute, 3)
	if err != nil || fmt.Sprint(got) != "[5 4 0]" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAmendManyChangesWhatItFindsAndTellsHowMuch(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var list []Amended
	for i := range 3 {
		k := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: k})
		list = append(list, Amended{Prefix: prefix, Key: k, When: When{Delay: time.Duration(i+1) * time.Hour}})
		if i < 2 {
			s.end(t, Settlement{Claim: s.take(t, k, "t"), Ending: EndDead})
		}
	}
	list = append(list, Amended{Prefix: prefix, Key: "app1:a:b:none"})
	// Only the first is purged; the third is no dead letter.
	if n, _, err := s.AmendMany(t.Context(), Purge, []Amended{list[0], list[2], list[3]}); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if n, _, err := s.AmendMany(t.Context(), Redrive, list); n != 1 || err != nil {
		t.Errorf("redriven %d, %v", n, err)
	}
	for i, want := range []notice.State{notice.Cancelled, notice.Scheduled, notice.Scheduled} {
		f, err := s.Find(t.Context(), prefix, list[i].Key)
		if err != nil || f.State != want {
			t.Errorf("%s is %s, want %s (%v)", list[i].Key, f.State, want, err)
		}
		if in := time.Until(f.Due); i == 1 && (in < 119*time.Minute || in > 121*time.Minute) {
			t.Errorf("redriven for two hours from now, due in %s", in)
		}
	}
}

// What does not fit took as long to read as what does, and was not counted: a
// thousand records of 256 KiB in one call.
func TestAPageReadsABoundedNumberOfBytes(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const size, n = 256 << 10, 40
	for i := range n {
		s.put(t, Request{Key: fmt.Sprintf("app1:a:b:%d", i), Content: notice.Content{Body: make([]byte, size), ContentType: "x",
			URL: "https://Shop.Example/a"}, Delay: time.Hour})
	}
	for host, fits := range map[string]int{"other.example": 0, "shop.example": n} {
		q, seen, looked, calls := Query{Routes: []string{prefix}, Host: host, Limit: 1000}, 0, 0, 0
		for {
			at, page := cursor{Prefix: prefix}, Page{}
			if q.Cursor != "" {
				at, _ = readCursor(q.Cursor)
			}
			more, err := s.pagePart(t.Context(), &page, &at, q)
			if err != nil {
				t.Fatal(err)
			}
			calls, seen, looked, q.Cursor = calls+1, seen+len(page.Items), looked+page.Looked, at.String()
			if page.Looked*size > 4<<20+2*size {
				t.Errorf("one call read %d records of %d bytes", page.Looked, size)
			}
			if !more {
				break
			}
		}
		if seen != fits || looked != n || calls < 2 {
			t.Errorf("%s: %d found of %d looked at in %d calls", host, seen, looked, calls)
		}
	}
}

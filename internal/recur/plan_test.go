package recur

import (
	"testing"
	"time"

	"notifier/internal/notice"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// next returns the tick of the next step at a time, in minutes after start, and how many ticks it leaves out.
func next(t *testing.T, d Definition, s State, now time.Duration) (minute float64, missed int) {
	t.Helper()
	x, err := d.Plan(s, start.Add(now))
	if err != nil || x.Tick.IsZero() {
		t.Fatalf("no tick: %v", err)
	}
	return x.Tick.Sub(start).Minutes(), x.Stored.Missed - s.Missed
}

func TestPlanOfMissedTicks(t *testing.T) {
	t.Parallel()
	every := Spec{Every: 10 * time.Minute}
	for _, c := range []struct {
		name   string
		d      Definition
		now    time.Duration
		minute float64
		missed int
	}{
		{"none is missed", Definition{Spec: every}, 5 * time.Minute, 10, 0},
		{"one has passed", Definition{Spec: every}, 11 * time.Minute, 10, 0},
		{"latest of three", Definition{Spec: every}, 35 * time.Minute, 30, 2},
		{"latest at a tick", Definition{Spec: every}, 40 * time.Minute, 40, 3},
		{"skip", Definition{Spec: every, Missed: MissedSkip}, 35 * time.Minute, 40, 3},
		{"skip none within a minute", Definition{Spec: every, Missed: MissedSkip}, 30*time.Minute + 59*time.Second, 30, 2},
		{"all", Definition{Spec: every, Missed: MissedAll}, 35 * time.Minute, 10, 0},
		{"all, at most two", Definition{Spec: every, Missed: MissedAll, MissedMost: 2}, 55 * time.Minute, 40, 3},
		{"expired", Definition{Spec: every, Content: notice.Content{ExpiresAfter: 5 * time.Minute}}, 35 * time.Minute, 40, 3},
		{"not expired", Definition{Spec: every, Content: notice.Content{ExpiresAfter: 6 * time.Minute}}, 35 * time.Minute, 30, 2},
		{"from", Definition{Spec: every, From: start.Add(20 * time.Minute)}, 5 * time.Minute, 20, 0},
		{"years", Definition{Spec: Spec{Cron: "0 0 1 1 *"}}, 5 * 365 * 24 * time.Hour, 1767 * 24 * 60, 4},
		{"a million", Definition{Spec: Spec{Every: time.Second}}, 24 * 60 * time.Minute, 24 * 60, mostCounted},
	} {
		if minute, missed := next(t, c.d, State{Cursor: start.UnixMilli()}, c.now); minute != c.minute || missed != c.missed {
			t.Errorf("%s: tick at minute %v with %d missed, want %v and %d", c.name, minute, missed, c.minute, c.missed)
		}
	}
}

func TestPlanEnds(t *testing.T) {
	t.Parallel()
	d := Definition{Spec: Spec{Every: time.Minute}, Until: start.Add(3 * time.Minute), Times: 3}
	s := State{Cursor: start.UnixMilli(), Number: 7}
	for i := 1; i <= 3; i++ {
		x, err := d.Plan(s, start)
		if err != nil || x.Number != 7+i || !x.Tick.Equal(start.Add(time.Duration(i)*time.Minute)) || x.After.IsZero() != (i == 3) {
			t.Fatalf("step %d: %+v, %v", i, x, err)
		}
		if early := x.Tick.Sub(x.At); early != Ahead && early != time.Minute {
			t.Errorf("stored %s before the tick", early)
		}

		s = x.Stored
	}

	d.Overlap = OverlapSkip
	x, err := d.Plan(State{Cursor: start.UnixMilli()}, start)
	if err != nil || !x.At.Equal(x.Tick) || !x.After.Equal(x.Tick.Add(time.Minute)) {
		t.Errorf("with OverlapSkip: %+v, %v", x, err)
	}

	for _, d := range []Definition{{Spec: d.Spec, Until: d.Until}, {Spec: d.Spec, Times: 3}} {
		if x, err := d.Plan(s, start); err != nil || !x.At.IsZero() {
			t.Errorf("after the end: %+v, %v", x, err)
		}
	}
}

func TestStoredTextKeepsDefinitions(t *testing.T) {
	t.Parallel()
	d := Definition{Key: "a:b:c:d", Spec: Spec{Cron: "0 2 * * *", Zone: "Asia/Shanghai"}, From: start, Until: start.Add(time.Hour), Times: 3,
		Missed: MissedAll, MissedMost: 4, Overlap: OverlapSkip, Paused: true, Client: 3, Content: notice.Content{URL: "https://a.example/x",
			Body: []byte("{\"a\":  [1,\n2]}"), Ladder: notice.Ladder{time.Second}, ExpiresAfter: time.Hour}}
	s := State{Number: 4, Changes: 2, Cursor: 5, Last: 3, LastTick: 5, Stored: 2, Missed: 1, Overlapped: 6, Occupied: 7}
	r, err := Decode(d.Key, s.Encode()+separator+d.Encode())
	if err != nil || r.State != s || !r.Same(&d) || string(r.Content.Body) != string(d.Content.Body) || r.Head != s.Encode() {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := Decode(d.Key, s.Deleted().Encode()); err != nil || r.Key != "" || r.Number != 4 || r.Changes != 3 {
		t.Errorf("deleted: %+v, %v", r, err)
	}
	if _, err := Decode(d.Key, "no"); err == nil {
		t.Error("took no JSON")
	}
}

// A tick that is to come keeps its number in another service, whatever that has stored for the key.
func TestNumberOfAnImportedTick(t *testing.T) {
	t.Parallel()
	d := Definition{Key: "a:b:c:d", Spec: Spec{Every: time.Hour}, MinNumber: 9, MinTick: start.Add(time.Hour)}
	for name, x := range map[string]struct {
		was             Recurrence
		now             time.Time
		kept, withdrawn int
	}{
		"new":             {Recurrence{}, start, 8, 8},
		"new, tick over":  {Recurrence{}, start.Add(time.Hour), 9, 9},
		"deleted, higher": {Recurrence{State: State{Number: 12}}, start, 12, 12},
		"its own one is pending": {Recurrence{Definition: Definition{Key: d.Key, Spec: d.Spec},
			State: State{Number: 3, Last: 3, LastTick: d.MinTick.UnixMilli(), Cursor: d.MinTick.UnixMilli()}}, start, 9, 8},
	} {
		if kept, withdrawn := d.Redefined(&x.was, x.now); kept.Number != x.kept || withdrawn.Number != x.withdrawn {
			t.Errorf("%s: %d, or %d; want %d, or %d", name, kept.Number, withdrawn.Number, x.kept, x.withdrawn)
		}
	}

	state, _ := d.Redefined(&Recurrence{}, start)
	if x := (Recurrence{Definition: d, State: state}); !x.Same(&d) {
		t.Error("the same import again changes the definition")
	}
	if d.MinNumber = 0; len(d.Check()) != 1 {
		t.Errorf("a tick without a number: %v", d.Check())
	}
}

func TestKeysOfOccurrences(t *testing.T) {
	t.Parallel()
	if of, n, ok := ParseOccurrence(OccurrenceKey("a:b:c:d", 12)); !ok || of != "a:b:c:d" || n != 12 {
		t.Error(of, n, ok)
	}

	for _, key := range []string{"a:b:c:d", "a:b:c:d~0", "a:b:c:d~01", "a:b:c:d~1234567890", "a:b:c:d~1~2", "a:b:c:~1"} {
		if of, n, ok := ParseOccurrence(key); ok {
			t.Errorf("%s is occurrence %d of %s", key, n, of)
		}
	}
}

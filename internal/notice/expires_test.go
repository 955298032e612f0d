package notice

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Both decoders read what AppendTail writes, and the fields that scripts insert behind the head.
func TestRecordWithAnExpiry(t *testing.T) {
	for _, record := range []string{
		`{"due":1700000000000,"made":5,"expires":1700000060000,"text":"b","expires_after":60000}`,
		`{"due":1700000000000,"made":5,"first":1690000000000,"expires":1700000060000,"text":"b","expires_after":60000}`,
		`{"due":1700000000000,"made":5,"first":-1,"expires":1700000060000,"text":"b","expires_after":60000,"n":3}`,
		`{"due":1700000000000,"made":5,"expires":1700000060000,"first_expires":-1,"text":"b","expires_after":60000}`,
		`{"due":1700000000000,"made":5,"first":7,"expires":1700000060000,"first_expires":1690000000000,"text":"b","expires_after":60000}`,
	} {
		n, err := Decode("a:b:c:1", "a", record)
		if err != nil {
			t.Fatal(err)
		}

		if n.Expires.UnixMilli() != 1700000060000 || n.ExpiresAfter != time.Minute {
			t.Errorf("%s: expires %s, %s after the due time", record, n.Expires, n.ExpiresAfter)
		}

		again := string(n.AppendTail(fmt.Appendf(nil, `{"due":%d,"made":%d`, n.Due.UnixMilli(), n.Made)))
		if again != record {
			t.Errorf("encoded as %s, want %s", again, record)
		}
	}
}

func TestNoAttemptBeginsAtTheExpiry(t *testing.T) {
	at := time.UnixMilli(1700000000000)
	n := &Notice{Content: Content{Expires: at}}
	for _, x := range []struct {
		at   time.Time
		want bool
	}{{at.Add(-time.Microsecond), false}, {at, true}, {at.Add(time.Hour), true}} {
		if n.Expired(x.at) != x.want {
			t.Errorf("expired %s after the expiry: %t, want %t", x.at.Sub(at), !x.want, x.want)
		}
	}

	if (&Notice{}).Expired(at) {
		t.Error("a notice without an expiry has expired")
	}
}

// A time is a part of the content, a duration is not.
func TestSameContentWithAnExpiry(t *testing.T) {
	at := time.UnixMilli(1700000000000)
	fixed, later := Content{Expires: at}, Content{Expires: at.Add(time.Second)}
	changed, first := later, Content{Expires: at.Add(time.Hour), FirstExpires: NoExpiry}
	changed.FirstExpires = at.UnixMilli()
	after, longer := Content{Expires: at, ExpiresAfter: time.Minute}, Content{ExpiresAfter: time.Hour}
	for _, x := range []struct {
		name string
		a, b Content
		same bool
	}{
		{"the same time", fixed, fixed, true},
		{"another time", fixed, later, false},
		{"no time", fixed, Content{}, false},
		{"a duration for a time", fixed, longer, false},
		{"the first time, changed since", changed, fixed, true},
		{"the time it was changed to", changed, later, false},
		{"no time, changed since", first, Content{}, true},
		{"another duration", after, longer, true},
		{"no duration", after, Content{}, true},
	} {
		if got := len(x.a.Diff(&x.b)) == 0; got != x.same {
			t.Errorf("%s: the same content %t, want %t: %v", x.name, got, x.same, x.a.Diff(&x.b))
		}

		tomb := (&Notice{Content: x.a}).Tombstone()
		if tomb.Same(&x.b) != x.same {
			t.Errorf("%s: a tombstone says %t, want %t", x.name, !x.same, x.same)
		}
	}

	if d := fixed.Diff(&later); !slices.Equal(d, []string{"expires"}) {
		t.Errorf("the difference is called %v", d)
	}
}

func TestExpiriesThatAreRefused(t *testing.T) {
	for _, c := range []Content{{ExpiresAfter: -time.Second}, {ExpiresAfter: time.Microsecond}, {ExpiresAfter: 2 * MaxHorizon},
		{Expires: time.Unix(0, 0)}, {Expires: time.Now().Add(3 * MaxHorizon)}} {
		if err := c.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s, %s after the due time: %v", c.Expires, c.ExpiresAfter, err)
		}
	}
}

// A ladder whose last step repeats has attempts until the notice expires.
func TestLadderThatRepeats(t *testing.T) {
	l, err := ParseLadder("15s,3m,1h*")
	if err != nil || !l.Repeats() || l.String() != "15s,3m,1h*" || l.Total() != 15*time.Second+3*time.Minute+time.Hour {
		t.Fatalf("%v, %v, total %s", l, err, l.Total())
	}

	if got, want := l.Summary(), "3 retries over 1h3m15s, then one every 1h until it expires"; got != want {
		t.Errorf("%q, want %q", got, want)
	}

	n := &Notice{Content: Content{Ladder: l, Expires: time.UnixMilli(1700000000000)}}
	for attempt, want := range map[int]time.Duration{1: 15 * time.Second, 2: 3 * time.Minute, 3: time.Hour, 4: time.Hour, 1000: time.Hour} {
		if d, more := n.StepAfter(attempt, nil); d != want || !more {
			t.Errorf("after attempt %d: %s, %t; want %s", attempt, d, more, want)
		}
	}

	if n.MaxAttempts(nil) != 0 {
		t.Errorf("at most %d attempts", n.MaxAttempts(nil))
	}

	n.Expires = time.Time{} // scheduled by a producer's script without an expiry
	if d, more := n.StepAfter(3, nil); d != time.Hour || !more || n.MaxAttempts(nil) != 4 {
		t.Errorf("without an expiry: %s, %t, at most %d attempts", d, more, n.MaxAttempts(nil))
	}
	if _, more := n.StepAfter(4, nil); more {
		t.Error("without an expiry the ladder has no end")
	}

	for _, text := range []string{"1h*,2h", "10s*", "*", "1h**", "0*", "none*"} {
		if l, err := ParseLadder(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", text, l, err)
		}
	}
}

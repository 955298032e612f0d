package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/auth"
)

// memory keeps entries in memory, the newest first.
type memory struct {
	list  []Entry
	reads []int // the limit of each
	fail  error
	ended bool // the context had, at the last write
}

func (s *memory) Audit(ctx context.Context, e Entry) error {
	s.ended = ctx.Err() != nil
	if s.fail == nil {
		s.list = slices.Insert(s.list, 0, e)
	}
	return s.fail
}

func (s *memory) Audited(_ context.Context, r Range, limit int) ([]Entry, error) {
	s.reads = append(s.reads, limit)
	from := 0
	if r.Before != "" {
		from = 1 + slices.IndexFunc(s.list, func(e Entry) bool { return e.Place == r.Before })
	}
	return s.list[from:min(from+limit, len(s.list))], s.fail
}

func TestEntryIsVisibleToItsClientAndAdmins(t *testing.T) {
	own, others := Entry{Client: "ops", Key: "app1:a:b:c"}, Entry{Client: "shop", Key: "app1:a:b:c"}
	for _, c := range []struct {
		who            auth.Caller
		own, ofAnother bool
	}{
		{auth.Local(), true, true},
		{auth.Caller{Name: "ops", Role: auth.Admin}, true, true},
		{auth.Caller{Name: "ops", Role: auth.Operate}, true, false},
		{auth.Caller{Name: "ops", Role: auth.Read}, true, false},
		{auth.Caller{Name: "ops", Prefix: "app1", Role: auth.Admin}, true, false},
		{auth.Caller{Name: "ops", Prefix: "app1", Role: auth.Produce}, true, false},
		{auth.Caller{Name: "desk", Prefix: "app1", Role: auth.Operate}, false, false},
	} {
		if own.VisibleTo(c.who) != c.own || others.VisibleTo(c.who) != c.ofAnother {
			t.Errorf("%+v sees that of ops: %v, that of shop: %v", c.who, own.VisibleTo(c.who), others.VisibleTo(c.who))
		}
	}
}

func TestEntriesUnderAPrefix(t *testing.T) {
	for _, c := range []struct {
		prefix string
		e      Entry
		within bool
	}{
		{"app1", Entry{}, false}, // of all keys
		{"app1", Entry{Key: "app1:a:b:c"}, true},
		{"app1", Entry{Key: "app12:a:b:c"}, false},
		{"app1:a:b:c", Entry{Key: "app1:a:b:c"}, true},
		{"app1", Entry{Prefix: "app1"}, true},
		{"app1", Entry{Prefix: "app1:a"}, true},
		{"app1:a", Entry{Prefix: "app1"}, false}, // of others' keys too
		{"app1:a", Entry{Key: "app1:b:c:d", Prefix: "app1:a"}, false},
	} {
		if got := c.e.within(c.prefix); got != c.within {
			t.Errorf("%+v is within %q: %v", c.e, c.prefix, got)
		}
	}
}

func TestActionsThatProgramsRepeatAreFrequent(t *testing.T) {
	for class, list := range map[Class][]Action{
		Rare:     {SignIn, Secret, Purge, Erase, Pause, Resume, Replay, ReplayStop, ReplayResume, Restore, PortalLink, PortalRevoke},
		Frequent: {SignOut, Cancel, Fire, Reschedule, Redrive, SendTest, "of another version"},
	} {
		for _, a := range list {
			if a.Class() != class {
				t.Errorf("%s is %s, want %s", a, a.Class(), class)
			}
		}
	}
}

func TestFieldsAndReadAreInverse(t *testing.T) {
	e := Entry{Client: "ops", Address: "::1", Via: Pages, Action: Redrive, Key: "app1:a:b:c", Prefix: "app1", Route: "orders", Result: Failed,
		Detail: "two words"}
	fields := map[string]string{"of another version": "x"}
	for pair := range slices.Chunk(e.Fields(), 2) {
		fields[pair[0]] = pair[1]
	}
	at := time.UnixMilli(1)
	got := Read("1-0", at, func(name string) string { return fields[name] })
	if e.ID, e.At, e.Count = "1-0", at, 1; got != e {
		t.Errorf("%+v, want %+v", got, e)
	}
	if f := (&Entry{Action: Pause}).Fields(); !slices.Equal(f, []string{"action", "pause"}) {
		t.Errorf("%q", f)
	}
	long := Entry{Detail: "a\x1b[2J\xff" + strings.Repeat("x", 1000)}
	if f := long.Fields(); len(f[1]) > maxField || strings.Contains(f[1], "\x1b") || !strings.HasPrefix(f[1], "a?[2J?x") {
		t.Errorf("%q", f)
	}
}

// An action is logged even if its caller is gone, and succeeds even if it cannot be stored.
func TestNote(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := &memory{}
	trail := NewTrail(s, zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	trail.Note(ctx, Entry{Client: "ops", Action: Cancel, Key: "app1:a:b:c", Result: Done})
	if len(s.list) != 1 || s.ended {
		t.Errorf("%+v, %v", s.list, s.ended)
	}
	s.fail = errors.New("redis is full")
	trail.Note(t.Context(), Entry{Action: Pause, Route: "orders", Result: Done})
	warned := logs.FilterLevelExact(zapcore.WarnLevel).All()
	if got := logs.FilterMessage("operator action").Len(); got != 2 || len(warned) != 1 || warned[0].ContextMap()["route"] != "orders" {
		t.Errorf("%d, %v", got, warned)
	}
}

func TestPages(t *testing.T) {
	s := &memory{}
	for i := range 5000 {
		e := Entry{ID: fmt.Sprint(i), Place: fmt.Sprint(i), Key: "app1:a:b:c", Client: "one"}
		if i%1000 == 7 {
			e.Key, e.Client = "app2:a:b:c", "two"
		}
		s.list = append(s.list, e)
	}
	trail := NewTrail(s, zap.NewNop())
	p, err := trail.Read(t.Context(), auth.Local(), Query{Limit: 3})
	if err != nil || len(p.Entries) != 3 || p.Next != "2" || !slices.Equal(s.reads, []int{3}) {
		t.Errorf("%+v, %v, %v", p, err, s.reads)
	}
	// Who sees few has pages that are short; none takes more than six steps.
	seen, pages := 0, 0
	for q := (Query{Limit: 100}); pages == 0 || q.Before != ""; pages++ {
		s.reads = nil
		p, err := trail.Read(t.Context(), auth.Caller{Name: "two"}, q)
		if err != nil || len(s.reads) > maxSteps {
			t.Fatalf("%v, %v", err, s.reads)
		}
		seen += len(p.Entries)
		q.Before = p.Next
	}
	if seen != 5 || pages != 2 {
		t.Errorf("%d entries on %d pages", seen, pages)
	}
	if p, err := trail.Read(t.Context(), auth.Local(), Query{Limit: 100, Prefix: "app2:a:b:c"}); err != nil || len(p.Entries) != 3 ||
		p.Next == "" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := trail.Read(t.Context(), auth.Local(), Query{}); err == nil {
		t.Error("a page of nothing is read")
	}
	s.fail = errors.New("down")
	if _, err := trail.Read(t.Context(), auth.Local(), Query{Limit: 1}); !errors.Is(err, s.fail) {
		t.Errorf("%v", err)
	}
}

func TestOpeningsAreNotedOnceAMinute(t *testing.T) {
	kept := &memory{}
	trail := NewTrail(kept, zap.NewNop())
	now := time.Now()
	trail.opened.now = func() time.Time { return now }
	open := func(client, key string, want int) {
		t.Helper()
		trail.Opened(t.Context(), Entry{Client: client, Key: key, Via: API})
		if len(kept.list) != want {
			t.Errorf("%d entries, want %d", len(kept.list), want)
		}
	}
	open("ops", "app1:a:b:1", 1)
	now = now.Add(openedAgain - 1)
	open("ops", "app1:a:b:1", 1)
	open("root", "app1:a:b:1", 2)
	open("ops", "app1:a:b:2", 3)
	now = now.Add(1)
	open("ops", "app1:a:b:1", 4)
	if e := kept.list[0]; e.Action != Open || e.Result != Done || e.Action.Class() != Frequent {
		t.Errorf("%+v", e)
	}
	for i := range mostOpened + 10 {
		open("ops", fmt.Sprint("app1:a:c:", i), 5+i)
	}
	if n := len(trail.opened.last); n > mostOpened {
		t.Errorf("%d openings in memory", n)
	}
}

// Openings do not push changes off the timeline of a notice.
func TestPageOfChangesHasNoOpenings(t *testing.T) {
	kept := &memory{}
	trail := NewTrail(kept, zap.NewNop())
	trail.Note(t.Context(), Entry{Action: Cancel, Key: "app1:a:b:1", Place: "0"})
	for i := range 3 {
		trail.Opened(t.Context(), Entry{Client: fmt.Sprint(i), Key: "app1:a:b:1", Place: fmt.Sprint(i + 1)})
	}
	for changes, want := range map[bool]Action{true: Cancel, false: Open} {
		page, err := trail.Read(t.Context(), auth.Local(), Query{Prefix: "app1", Limit: 1, Changes: changes})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Action != want {
			t.Errorf("%+v, %v", page, err)
		}
	}
}

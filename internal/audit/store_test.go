package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ctx := t.Context()
	began, err := s.Wire.Redis.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := s.Audit(ctx, Entry{Client: "ops", Action: Cancel, Key: fmt.Sprint("app1:a:b:", i), Result: Done}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Audited(ctx, Range{}, 10)
	if err != nil || len(all) != 5 || all[0].Key != "app1:a:b:4" || all[4].Key != "app1:a:b:0" || all[0].Client != "ops" {
		t.Fatalf("%+v, %v", all, err)
	}
	if at := all[4].At; at.Before(began.Truncate(time.Millisecond)) || at.After(began.Add(time.Minute)) {
		t.Errorf("%s, began %s", at, began)
	}
	for name, c := range map[string]struct {
		r     Range
		limit int
		want  int
		first string
	}{
		"a page":            {Range{}, 2, 2, "app1:a:b:4"},
		"the next":          {Range{Before: all[1].Place}, 2, 2, "app1:a:b:2"},
		"behind the last":   {Range{Before: all[4].Place}, 2, 0, ""},
		"since the first":   {Range{Since: all[4].At}, 10, 5, "app1:a:b:4"},
		"since then":        {Range{Since: all[0].At.Add(time.Nanosecond)}, 10, 0, ""},
		"until the first":   {Range{Until: all[4].At}, 10, 0, ""},
		"until later":       {Range{Until: all[0].At.Add(time.Hour)}, 10, 5, "app1:a:b:4"},
		"before and until":  {Range{Before: all[1].Place, Until: all[0].At.Add(time.Hour)}, 10, 3, "app1:a:b:2"},
		"until and before":  {Range{Before: all[1].Place, Until: all[4].At}, 10, 0, ""},
		"since before 1970": {Range{Since: time.Unix(-5, 0)}, 10, 5, "app1:a:b:4"},
	} {
		got, err := s.Audited(ctx, c.r, c.limit)
		if err != nil || len(got) != c.want || c.want > 0 && got[0].Key != c.first {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"x", "1", "1-", "-1", "01-0", "+-1", "99999999999999999999-0", "1-0\r\nFLUSHALL", "1-0", "1-0 x",
		"1 ops:rare", "1-0\r\nFLUSHALL ops:rare"} {
		if _, err := s.Audited(ctx, Range{Before: bad}, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// fill adds n entries of one client whose keys differ.
func (s *Store) fill(t *testing.T, client string, a Action, n int) {
	t.Helper()
	for i := range n {
		if err := s.Audit(t.Context(), Entry{Client: client, Action: a, Key: fmt.Sprint("app1:a:b:", i), Result: Done}); err != nil {
			t.Fatal(err)
		}
	}
}

// all reads the audit in pages of different sizes, the newest first.
func (s *Store) all(t *testing.T, r Range) (list []Entry) {
	t.Helper()
	for i := 0; ; i++ {
		limit := []int{1, 3, 100, 700}[i%4]
		page, err := s.Audited(t.Context(), r, limit)
		if err != nil {
			t.Fatal(err)
		}
		if list = append(list, page...); len(page) < limit {
			return list
		}
		r.Before = page[len(page)-1].Place
	}
}

func (s *Store) auditKeys(t *testing.T) int {
	t.Helper()
	list, err := s.Wire.Redis.Keys(t.Context(), s.Wire.Space.Namespace+":{audit}:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// No number of calls of one client pushes out another's entries, nor its own rare ones.
func TestFloodOfOneClientLeavesOtherEntries(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	s.fill(t, "ops", SignIn, 1)
	s.fill(t, "ops", Cancel, 1)
	s.fill(t, "shop", Pause, 2)
	s.fill(t, "shop", Reschedule, 3000)
	list := s.all(t, Range{})
	if len(list) != auditMost+4 {
		t.Fatalf("%d entries, want %d", len(list), auditMost+4)
	}
	tail := list[auditMost:]
	for i, want := range []string{"shop pause", "shop pause", "ops cancel", "ops sign-in"} {
		if got := fmt.Sprint(tail[i].Client, " ", tail[i].Action); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	for i := 1; i < len(list); i++ {
		if list[i].At.After(list[i-1].At) {
			t.Fatalf("%s before %s", list[i-1].ID, list[i].ID)
		}
	}
	own := "ops"
	if list, err := s.Audited(t.Context(), Range{Client: &own}, 10); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if n := s.auditKeys(t); n > 2*2*2+2 {
		t.Errorf("%d keys", n)
	}
	// What counts repeats goes with the entries.
	repeats := s.Wire.Space.AuditRepeats("shop", "frequent")
	if n, err := s.Wire.Redis.HLen(t.Context(), repeats).Result(); err != nil || n != auditMost {
		t.Errorf("%d fields of %s, %v", n, repeats, err)
	}
}

func TestSameCallWithinAMinuteIsOneEntry(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ctx := t.Context()
	for range 3000 {
		if err := s.Audit(ctx, Entry{Client: "shop", Action: Reschedule, Key: "app1:a:b:1", Result: Done}); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range []Entry{
		{Action: Reschedule, Key: "app1:a:b:1", Result: Done},
		{Client: "shop", Action: Cancel, Key: "app1:a:b:1", Result: Done},
		{Client: "shop", Action: Reschedule, Key: "app1:a:b:2", Result: Done},
		{Client: "shop", Action: Reschedule, Key: "app1:a:b:1", Result: Failed, Detail: "one error"},
		{Client: "shop", Action: Reschedule, Key: "app1:a:b:1", Result: Failed, Detail: "another"},
		{Client: "shop", Action: Reschedule, Key: "app1:a:b:1", Result: Done, Address: "192.0.2.1"},
		{Client: "shop", Action: PortalLink, Prefix: "app1", Result: Done, Detail: "link A"},
		{Client: "shop", Action: PortalLink, Prefix: "app1", Result: Done, Detail: "link B"},
	} {
		if err := s.Audit(ctx, e); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	var got []string
	for _, e := range s.all(t, Range{}) {
		got = append(got, strings.TrimSpace(fmt.Sprint(e.Client, " ", e.Action, " ", e.Key, " ", e.Result, " ", e.Count, " ", e.Address,
			e.Detail)))
	}
	slices.Reverse(got)
	want := []string{"shop reschedule app1:a:b:1 done 3000", "reschedule app1:a:b:1 done 1", "shop cancel app1:a:b:1 done 1",
		"shop reschedule app1:a:b:2 done 1",
		"shop reschedule app1:a:b:1 failed 2 one error", "shop reschedule app1:a:b:1 done 1 192.0.2.1", "shop portal-link  done 1 link A",
		"shop portal-link  done 1 link B"}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// A minute later it is another entry.
	last := s.all(t, Range{})[7]
	minute := func(id string) string {
		at, _ := streamID(id)
		return fmt.Sprint(at[0]-uint64(auditSame.Milliseconds()), "-", at[1])
	}
	fields, err := s.Wire.Redis.HGetAll(ctx, s.Wire.Space.AuditRepeats("shop", "frequent")).Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range fields {
		if v == last.ID {
			if err := s.Wire.Redis.HSet(ctx, s.Wire.Space.AuditRepeats("shop", "frequent"), name, minute(last.ID)).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Audit(ctx, Entry{Client: "shop", Action: Reschedule, Key: "app1:a:b:1", Result: Done}); err != nil {
		t.Fatal(err)
	}
	if list := s.all(t, Range{}); len(list) != 9 || list[0].Count != 1 || list[8].Count != 3000 {
		t.Errorf("%d entries, the newest %+v", len(list), list[0])
	}
}

// Ids rise over all streams, also where the clock was set back.
func TestAuditIsInOrderThoughTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ahead := fmt.Sprintf("%d-7", time.Now().Add(time.Hour).UnixMilli())
	if err := s.Wire.Redis.Set(t.Context(), s.Wire.Space.AuditLast(), ahead, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		e := Entry{Client: fmt.Sprint("c", i%7), Action: []Action{Pause, Cancel}[i%2], Key: fmt.Sprint(i)}
		if err := s.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	list := s.all(t, Range{})
	if len(list) != 50 {
		t.Fatalf("%d entries", len(list))
	}
	for i, e := range list {
		if e.Key != fmt.Sprint(49-i) {
			t.Errorf("%d is %+v", i, e)
		}
	}
	// Nor is an entry refused where the key with the last id was lost.
	if err := s.Wire.Redis.Del(t.Context(), s.Wire.Space.AuditLast()).Err(); err != nil {
		t.Fatal(err)
	}
	s.fill(t, "c0", Pause, 1)
}

// Clients that no configuration names any more share the room of one.
func TestFormerClientsShareOneStream(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	ctx := t.Context()
	if err := s.Tend(ctx, []string{"ops"}); err != nil {
		t.Fatal(err)
	}
	s.fill(t, "ops", SignIn, 2)
	for i := range 30 {
		s.fill(t, fmt.Sprint("renamed-", i), Pause, 100)
		s.fill(t, fmt.Sprint("renamed-", i), Cancel, 3)
	}
	s.fill(t, "renamed-29", Cancel, 1) // counted
	before := s.all(t, Range{})
	if err := s.Tend(ctx, []string{"ops"}); err != nil {
		t.Fatal(err)
	}
	if n := s.auditKeys(t); n < 60 {
		t.Fatalf("%d keys: clients count as former ones at once", n)
	}
	for i := range 30 {
		if err := s.Wire.Redis.ZAdd(ctx, s.Wire.Space.AuditClients(), redis.Z{Score: float64(time.Now().Add(-2 * auditLeft).UnixMilli()),
			Member: fmt.Sprint("renamed-", i)}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Tend(ctx, []string{"ops"}); err != nil {
		t.Fatal(err)
	}
	if n := s.auditKeys(t); n > 6 {
		t.Errorf("%d keys", n)
	}
	after := s.all(t, Range{})
	if len(after) != auditMost+2+90 {
		t.Fatalf("%d entries, want %d", len(after), auditMost+2+90)
	}
	// The newest of them are as they were.
	for i := range 2000 {
		b, a := before[i], after[i]
		b.Place, a.Place = "", ""
		if a != b {
			t.Fatalf("%d: %+v, was %+v", i, a, b)
		}
	}
	// A returning client reads its own entries.
	own, n := "renamed-29", 0
	for _, e := range s.all(t, Range{Client: &own}) {
		if e.Client == own {
			n++
		}
	}
	if n != 103 {
		t.Errorf("%d entries of a client that left", n)
	}
}

// A migration copies the audit to the target, even if it is repeated, and keeps the target's own
// entries.
func TestAuditIsCopied(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	far := storeOn(t, testkit.StartRedis(t).URL(), s.Wire.Space.Namespace)
	ctx := t.Context()
	s.fill(t, "ops", SignIn, 3)
	s.fill(t, "ops", SignIn, 2) // counted
	far.fill(t, "ops", Pause, 2)
	s.fill(t, "shop", Cancel, 700)
	copied := func(from, to *Store) {
		t.Helper()
		if err := from.Copy(ctx, to); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		copied(s, far)
	}
	s.fill(t, "shop", Fire, 1)
	s.fill(t, "ops", SignIn, 1) // counted
	copied(s, far)
	check := func(at *Store) {
		t.Helper()
		list, counts := at.all(t, Range{}), map[Action]int{}
		for _, e := range list {
			counts[e.Action] += e.Count
		}
		if want := map[Action]int{Fire: 1, Cancel: 700, Pause: 2, SignIn: 6}; !maps.Equal(counts, want) {
			t.Errorf("%v, want %v", counts, want)
		}
		for i := 1; i < len(list); i++ {
			if list[i].At.After(list[i-1].At) {
				t.Errorf("%s before %s", list[i-1].ID, list[i].ID)
			}
		}
	}
	check(far)
	copied(far, s) // turned round
	check(s)
	if n := far.auditKeys(t); n > 5*4+2 {
		t.Errorf("%d keys", n)
	}
	if list, err := far.Wire.Redis.Keys(ctx, "*incoming*").Result(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	far.fill(t, "ops", SignIn, 1)
	if e := far.all(t, Range{})[0]; e.Action != SignIn || e.Count != 1 {
		t.Errorf("%+v", e)
	}
}

// No call waits for the audit on a node that hangs.
func TestAuditDoesNotWaitForASlowNode(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig("cluster-enabled yes"))
	ctx := t.Context()
	if err := srv.Client().ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	c, err := wire.Open(wire.Address{Mode: "cluster", URL: "redis://" + srv.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s := &Store{wire.New(wire.Options{Client: c.Commander, Space: keys.Space{Namespace: "notifier", Shards: 1}, Cluster: true,
		Nodes: c.Nodes})}
	entry := Entry{Client: "ops", Action: Cancel, Result: Done}
	for end := time.Now().Add(30 * time.Second); s.Audit(ctx, entry) != nil; {
		if time.Now().After(end) {
			t.Fatal("no cluster within 30 s")
		}
	}
	srv.Pause()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Audit(gone, entry); !errors.Is(err, context.Canceled) {
		t.Errorf("of a caller that is gone: %v", err)
	}
	var away *wire.AwayError
	if err := s.Audit(ctx, entry); !errors.As(err, &away) || !errors.Is(err, wire.ErrUnavailable) {
		t.Fatalf("%v, want that the node is slow", err)
	}
	srv.Unpause()
	for c.Nodes.Slow(away.Addr) {
		if ctx.Err() != nil {
			t.Fatal("it stays slow")
		}
		_ = c.Ping(ctx)
	}
	if all, err := s.Audited(ctx, Range{}, 10); err != nil || len(all) != 1 || all[0].Count < 2 {
		t.Errorf("%+v, %v: the entry was in flight", all, err)
	}
}

func openStore(t *testing.T) (*Store, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return storeOn(t, srv.URL(), srv.Namespace()), srv
}

// storeOn returns the audit of a namespace on a server.
func storeOn(t *testing.T, url, namespace string) *Store {
	t.Helper()
	w := wire.New(wire.Options{Client: testkit.Client(t, url), Space: keys.Space{Namespace: namespace, Shards: 1}})
	if err := w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}

	return &Store{w}
}

// breaks ends the connection at one command, or one pipeline, of several clients.
type breaks struct{ in int } // commands; below 0 = it has

func (b *breaks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *breaks) err(cmd redis.Cmder) error {
	if slices.Contains([]string{"hello", "client", "auth", "select"}, cmd.Name()) {
		return nil // of a new connection
	}
	if b.in--; b.in == -1 {
		return syscall.ECONNRESET
	}
	return nil
}

func (b *breaks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := b.err(cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (b *breaks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := b.err(cmds[0]); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

// Whichever command of a call fails, the call says so, and the next one neither loses an entry nor doubles it.
func TestCallsThatBreakOffAreMadeAgain(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	for name, c := range map[string]struct {
		call  func(ctx context.Context, s, far *Store) error
		moved bool // to far
	}{
		"Tend":    {func(ctx context.Context, s, _ *Store) error { return s.Tend(ctx, nil) }, false},
		"Copy":    {func(ctx context.Context, s, far *Store) error { return s.Copy(ctx, far) }, true},
		"Audited": {func(ctx context.Context, s, _ *Store) error { _, err := s.Audited(ctx, Range{}, 100); return err }, false},
	} {
		for n, broken := 0, true; broken; n++ {
			at := fmt.Sprint(srv.Namespace(), name, n)
			s, far := storeOn(t, srv.URL(), at), storeOn(t, srv.URL(), at+"far")
			s.fill(t, "stays", Cancel, 12)
			s.fill(t, "gone", Pause, 2)
			if err := s.Wire.Redis.ZAdd(t.Context(), s.Wire.Space.AuditClients(), redis.Z{Score: 1, Member: "gone"}).Err(); err != nil {
				t.Fatal(err)
			}
			b := &breaks{in: n}
			s.Wire.Redis.AddHook(b)
			far.Wire.Redis.AddHook(b)
			err := c.call(t.Context(), s, far)
			if broken = b.in < 0; broken != errors.Is(err, wire.ErrUnavailable) || !broken && err != nil {
				t.Errorf("%s breaks at command %d: %v", name, n, err)
			}
			b.in = -1
			if err := errors.Join(c.call(t.Context(), s, far), s.Tend(t.Context(), nil)); err != nil {
				t.Fatal(err)
			}
			if c.moved {
				s = far
			}
			list := s.all(t, Range{})
			if len(list) != 14 {
				t.Errorf("%s broke at command %d: %d entries", name, n, len(list))
			}
			for _, e := range list {
				if e.Count != 1 {
					t.Errorf("%s broke at command %d: %+v", name, n, e)
				}
			}
		}
	}
}

package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

const (
	oldHooks = "https://old.example/hooks"
	newHooks = "https://new.example/in"
)

// redirectWorld is a store on its own database, with the redirects' Redis.
type redirectWorld struct {
	t      *testing.T
	s      Store
	routes *route.Table
}

func newRedirectWorld(t *testing.T, shards int) *redirectWorld {
	t.Helper()
	return redirectWorldOn(t, testkit.SharedRedis(t), shards)
}

func redirectWorldOn(t *testing.T, srv *testkit.Redis, shards int) *redirectWorld {
	t.Helper()
	space := keys.Space{Namespace: srv.Namespace(), Shards: shards}
	s := store.New(store.Options{Client: srv.Client(), Space: space, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 1000})
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	table, err := route.NewTable([]*route.Route{{Name: "all", Prefix: prefix, Target: route.Target{Kind: route.KindNotice},
		Ladder: notice.DefaultLadder, Timeout: time.Second, Concurrency: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return &redirectWorld{t, Store{s}, table}
}

func key(i int) string { return fmt.Sprintf("app1:a:b:%d", i) }

func (w *redirectWorld) put(i int, url string) {
	w.t.Helper()
	k := key(i)
	c := notice.Content{URL: url, Headers: []notice.Header{{Name: "Authorization", Value: "x"}}}
	r := store.Request{Key: k, Delay: time.Hour, Content: c}
	out, err := w.s.Schedule(w.t.Context(), w.s.Space().Partition(prefix, k), []store.Request{r})
	if err != nil || !out[0].Created {
		w.t.Fatalf("%+v, %v", out, err)
	}
}

func (w *redirectWorld) find(i int) store.Found {
	w.t.Helper()
	f, err := w.s.Find(w.t.Context(), prefix, key(i))
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// claim makes a notice due and claims it.
func (w *redirectWorld) claim(i int) store.Claim {
	w.t.Helper()
	k := key(i)
	if c, err := w.s.Amend(w.t.Context(), prefix, k, store.Fire, store.When{}); err != nil || !c.Done {
		w.t.Fatal(c, err)
	}
	lease := store.Lease{Token: "t" + k, For: w.routes.Prefix(prefix).Lease()}
	c, err := w.s.ClaimKeys(w.t.Context(), w.s.Space().Partition(prefix, k), lease, []string{k})
	if err != nil || len(c.Won) != 1 {
		w.t.Fatalf("%+v, %v", c, err)
	}
	ApplyRedirects(w.routes, &c)
	return c.Won[0]
}

// fail ends an attempt; the notice is scheduled again in an hour.
func (w *redirectWorld) fail(c store.Claim) {
	w.t.Helper()
	c.Add(notice.Attempt{Number: c.NextAttempt(), At: time.Now(), Reason: notice.ReasonTimeout})
	p := w.s.Space().Partition(prefix, c.Key)
	out, err := w.s.Settle(w.t.Context(), p, []store.Settlement{{Claim: c, Ending: store.EndRetry, After: time.Hour}})
	if err != nil || out[0].Stale {
		w.t.Fatalf("%+v, %v", out, err)
	}
}

func (w *redirectWorld) start(rule Rule) *Job {
	w.t.Helper()
	now, err := w.s.Wire().Now(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	r := &Job{ID: fmt.Sprintf("rdr_%d", now.UnixNano()), Rule: rule, State: Running, Made: now, Changed: now}
	if err := w.s.Add(w.t.Context(), r, MaxJobs); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *redirectWorld) driver() *Changer {
	return NewChanger(ChangerOptions{Store: w.s, Routes: w.routes, Logger: zap.NewNop()})
}

// drive drives the oldest job without a driver until it is over, was stopped, or ctx ends. It returns false if there is none.
func drive(ctx context.Context, d *Changer) bool {
	t := d.take(ctx, rand.Text(), nil)
	if t != nil {
		t.run(ctx)
	}
	return t != nil
}

func (w *redirectWorld) read(id string) Job {
	w.t.Helper()
	r, err := w.s.Read(w.t.Context(), id)
	if err == nil {
		err = w.s.Count(w.t.Context(), &r)
	}
	if err != nil || r.ID == "" {
		w.t.Fatalf("%+v, %v", r, err)
	}
	return r
}

// moved fails unless a notice has the new address and its place, its id and its attempts of before.
func (w *redirectWorld) moved(i int, was store.Found, attempts int) {
	w.t.Helper()
	f := w.find(i)
	if f.URL != fmt.Sprintf("%s/%d?q=%d", newHooks, i, i) || f.ID() != was.ID() || f.AttemptsMade != attempts || len(f.Headers) > 0 ||
		f.ScheduledURL() != was.URL {
		w.t.Errorf("notice %d: %+v", i, f.Notice)
	}
}

func address(i int) string { return fmt.Sprintf("%s/%d?q=%d", oldHooks, i, i) }

func TestRedirectChangesAllPendingNotices(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3} {
		w := newRedirectWorld(t, shards)
		const n = 450
		was := map[int]store.Found{}
		for i := range n {
			w.put(i, address(i))
			was[i] = w.find(i)
		}
		w.put(n, "https://other.example/")
		w.put(n+1, oldHooks+"some")
		rule := Rule{From: oldHooks, To: newHooks}
		r := w.start(rule)
		plan, err := PlanJob(t.Context(), w.s, w.routes, r, time.Minute)
		if err != nil || plan != (JobPlan{Found: n, Complete: true}) {
			t.Errorf("dry run: %+v, %v", plan, err)
		}
		w.put(n+2, address(n+2)) // later than the redirect
		if !drive(t.Context(), w.driver()) {
			t.Fatal("nothing was driven")
		}
		for i := range n {
			w.moved(i, was[i], 0)
			if f, before := w.find(i), was[i]; !f.Due.Equal(before.Due) || f.Score() != before.Score() {
				t.Errorf("the due time of %d has changed", i)
			}
		}
		for i, want := range map[int]string{n: "https://other.example/", n + 1: oldHooks + "some", n + 2: address(n + 2)} {
			if f := w.find(i); f.URL != want {
				t.Errorf("%d: %s, want %s", i, f.URL, want)
			}
		}
		got := w.read(r.ID)
		if got.State != Done || got.Redirected != n || got.Refused != 0 || got.InFlight != 0 || got.Pass != 1 {
			t.Errorf("%+v", got)
		}
		if drive(t.Context(), w.driver()) {
			t.Error("it is driven again")
		}
	}
}

// A claimed notice, and one that changes between the read and the write, are counted in flight, and changed later.
func TestRedirectVisitsNoticesInFlightAgain(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	for i := range 3 {
		w.put(i, address(i))
	}
	was := w.find(0)
	c := w.claim(0)
	r := w.start(Rule{From: oldHooks, To: newHooks})
	d := &changeDrive{Changer: w.driver(), r: *r, as: "x"}
	if over, err := d.pass(t.Context()); over || err != nil || d.r.InFlight != 1 {
		t.Fatalf("%v, %v, %+v", over, err, d.r)
	}
	if f := w.find(0); f.URL != address(0) || f.State != notice.Claimed {
		t.Errorf("a claimed notice was changed: %+v", f.Notice)
	}
	if over, err := d.pass(t.Context()); over || err != nil || d.r.InFlight != 1 || d.r.Pass != 2 {
		t.Fatalf("still claimed: %v, %v, %+v", over, err, d.r)
	}
	w.fail(c)
	if over, err := d.pass(t.Context()); !over || err != nil || d.r.InFlight != 0 {
		t.Fatalf("%v, %v, %+v", over, err, d.r)
	}
	w.moved(0, was, 1)
	if got := w.read(r.ID); got.Redirected != 3 {
		t.Errorf("%+v", got)
	}
}

func TestRedirectWritesNothingOverAChange(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	for i := range 4 {
		w.put(i, address(i))
	}
	r := w.start(Rule{From: oldHooks, To: newHooks})
	v := visitor{w.s, w.routes, r, map[string]bool{}}
	p := keys.Partition{Prefix: prefix}
	all := []string{key(0), key(1), key(2), key(3)}
	was := w.find(3)
	got, err := v.visit(t.Context(), p, all, func(ctx context.Context, p keys.Partition, list []rewrite) ([]string, error) {
		for i, op := range []store.Amendment{store.Reschedule, store.Cancel} {
			if c, err := w.s.Amend(ctx, prefix, key(i), op, store.When{Delay: 2 * time.Hour}); err != nil || !c.Done {
				t.Fatal(c, err)
			}
		}
		w.claim(2)
		left, err := v.change(ctx, p, list)
		if again, err := v.change(ctx, p, list); err != nil || len(again) != len(left)+1 {
			t.Errorf("the step repeated: %v, %v", again, err) // 3 differs from what was read
		}
		return left, err
	})
	if err != nil || fmt.Sprint(got.left) != fmt.Sprint([]string{key(0), key(2)}) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range 3 {
		if f := w.find(i); f.URL != address(i) {
			t.Errorf("%d was changed: %+v", i, f.Notice)
		}
	}
	w.moved(3, was, 0)
	if got := w.read(r.ID); got.Redirected != 1 {
		t.Errorf("counted %d", got.Redirected)
	}

	// A repeated step skips what carries the id, even if the new address matches again.
	r.Rule = Rule{From: newHooks, To: newHooks + "/again"}
	if got, err := v.visit(t.Context(), p, []string{key(3)}, v.change); err != nil || got.matched != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	w.moved(3, was, 0)
}

// A stopped redirect changes nothing, and another instance continues a redirect whose driver has gone.
func TestRedirectStopsAndAnotherInstanceContinues(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 2)
	const n = 600
	for i := range n {
		w.put(i, address(i))
	}
	ctx := t.Context()
	r := w.start(Rule{From: oldHooks, To: newHooks})
	first, steps := w.driver(), 0
	first.between = func() {
		if steps++; steps == 2 {
			if _, ok, err := w.s.Turn(ctx, r.ID, Running, Stopped, time.Now()); !ok || err != nil {
				t.Error(ok, err)
			}
		}
	}
	drive(ctx, first)
	got := w.read(r.ID)
	if got.State != Stopped || got.Redirected == 0 || got.Redirected >= n {
		t.Fatalf("stopped: %+v", got)
	}
	if drive(ctx, w.driver()) || w.read(r.ID).Redirected != got.Redirected {
		t.Error("a stopped redirect is driven")
	}

	if _, ok, err := w.s.Turn(ctx, r.ID, Stopped, Running, time.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	second, dying := w.driver(), (context.CancelFunc)(nil)
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	dying, steps = cancel, 0
	second.between = func() {
		if steps++; steps == 3 {
			dying()
		}
	}
	drive(life, second)
	if got = w.read(r.ID); got.State != Running || got.Redirected >= n {
		t.Fatalf("%+v", got)
	}
	if !drive(ctx, w.driver()) {
		t.Fatal("no other instance continues")
	}
	got = w.read(r.ID)
	if got.State != Done || got.Redirected != n {
		t.Errorf("%+v", got)
	}
	for i := range n {
		if f := w.find(i); f.URL != fmt.Sprintf("%s/%d?q=%d", newHooks, i, i) || f.Redirect != r.ID {
			t.Fatalf("%d: %+v", i, f.Notice)
		}
	}
}

// A migration ends a redirect, because a redirect is not stored on the other side.
func TestMigrationEndsRedirect(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	for i := range 3 {
		w.put(i, address(i))
	}
	r := w.start(Rule{From: oldHooks, To: newHooks})
	if _, err := w.s.Layout.SetSide(t.Context(), w.s.Layout.Side(), store.Side{State: store.SideLeaving, ID: "m", Other: "x"}); err != nil {
		t.Fatal(err)
	}
	if !drive(t.Context(), w.driver()) {
		t.Error("the driver does not go on with the next redirect")
	}
	if got := w.read(r.ID); got.State != Failed || got.Reason == "" || got.Redirected != 0 {
		t.Errorf("%+v", got)
	}
}

func TestOneInstanceDrivesAtATime(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	w.put(1, address(1))
	r := w.start(Rule{From: oldHooks, To: newHooks})
	other := *r
	if ok, err := w.s.save(t.Context(), "another", &other); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if drive(t.Context(), w.driver()) || w.read(r.ID).Redirected > 0 {
		t.Error("driven in spite of the lease")
	}
	d := &changeDrive{Changer: w.driver(), r: *r, as: "x"}
	if _, err := d.pass(t.Context()); err != errLost {
		t.Errorf("a driver without the lease: %v", err)
	}
	if err := w.s.leave(t.Context(), "x", r.ID); err != nil {
		t.Fatal(err)
	}
	second := w.startBulk(KindCancel, Rule{Prefix: "app1:other"}, Filter{})
	if !drive(t.Context(), w.driver()) || w.read(r.ID).State != Running || w.read(second.ID).State != Done {
		t.Error("the lease of a job holds for another one, or was given up by a driver without it")
	}
	if err := w.s.leave(t.Context(), "another", r.ID); err != nil {
		t.Fatal(err)
	}
	if !drive(t.Context(), w.driver()) || w.read(r.ID).State != Done {
		t.Error("not driven after the lease")
	}
}

func TestRefusedNoticesKeepTheirAddress(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	w.put(1, address(1))
	r := w.start(Rule{From: oldHooks, To: "http://127.0.0.1/"})
	if !drive(t.Context(), w.driver()) {
		t.Fatal("not driven")
	}
	if got := w.read(r.ID); got.State != Done || got.Refused != 1 || got.Redirected != 0 || w.find(1).URL != address(1) {
		t.Errorf("%+v", got)
	}
}

func TestStoredRedirectsAreBounded(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	ctx := t.Context()
	now := time.Now().UTC()
	add := func(i int, state string) error {
		at := now.Add(time.Duration(i) * time.Second)
		return w.s.Add(ctx, &Job{ID: fmt.Sprint("rdr_", i), State: state, Made: at, Changed: at}, MaxJobs)
	}
	for i := range MaxJobs + 10 {
		state := Done
		if i%2 == 0 {
			state = Stopped
		}
		if err := add(i, state); err != nil {
			t.Fatal(i, err)
		}
	}
	list, err := w.s.List(ctx)
	if err != nil || len(list) > MaxJobs || list[0].ID != fmt.Sprint("rdr_", MaxJobs+9) {
		t.Fatalf("%d, %v", len(list), err)
	}
	for i := 0; err == nil && i < 2*MaxJobs; i++ {
		err = add(1000+i, Stopped)
	}
	var full *FullError
	if !errors.As(err, &full) || full.All || full.Most != MaxJobs {
		t.Errorf("%v", err)
	}
	other := &Job{ID: "rdr_b", Client: "b", State: Stopped, Made: now, Changed: now}
	if err := w.s.Add(ctx, other, 3); !errors.As(err, &full) || !full.All {
		t.Errorf("%v", err)
	}
}

// A partition that cannot be visited, here because its key has a foreign type, neither hides a stop, nor keeps the other
// partitions and redirects from going on. It is visited once it can be.
func TestFailingPartitionBlocksNothingElse(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 2)
	const n, other = 20, "https://other.example/x"
	for i := range 2 * n {
		w.put(i, map[bool]string{true: address(i), false: other}[i < n])
	}
	first, second := w.start(Rule{From: oldHooks, To: newHooks}), w.start(Rule{From: other, To: newHooks})
	third := w.start(Rule{From: newHooks, To: other})
	shadow, c := w.s.Space().Shadow(keys.Partition{Shard: 0, Prefix: prefix}), w.s.Wire().Redis
	ctx := t.Context()
	if err := errors.Join(c.Rename(ctx, shadow, shadow+"x").Err(), c.Set(ctx, shadow, "foreign", 0).Err()); err != nil {
		t.Fatal(err)
	}
	d := w.driver()
	life, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error)
	go func() { ended <- d.Run(life) }()
	until := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			select {
			case <-time.After(5 * time.Millisecond): // until drivers of goroutines have read and written
			case <-ctx.Done():
				t.Fatal(what)
			}
		}
	}
	until("the other shard's notices", func() bool {
		for i := range 2 * n {
			if w.s.Space().Shard(key(i)) == 1 && w.find(i).Redirect != third.ID {
				return false
			}
		}
		return true
	})
	until("the reason", func() bool { return w.read(first.ID).Reason != "" })
	for i := range 2 * n {
		if w.s.Space().Shard(key(i)) == 1 {
			if f := w.find(i); f.Redirect != third.ID || !strings.HasPrefix(f.URL, other) {
				t.Errorf("notice %d: %s, by %q", i, f.URL, f.Redirect)
			}
		}
	}
	if r := w.read(first.ID); r.State != Running || !strings.Contains(r.Reason, "WRONGTYPE") {
		t.Errorf("%+v", r)
	}
	if _, ok, err := w.s.Turn(ctx, first.ID, Running, Stopped, time.Now()); !ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
	until("the driver of a stopped job", func() bool { return !w.s.Wire().Redis.HExists(ctx, w.s.Space().JobLeases(), first.ID).Val() })
	if err := c.Rename(ctx, shadow+"x", shadow).Err(); err != nil {
		t.Fatal(err)
	}
	until("the end", func() bool { return w.read(second.ID).State == Done && w.read(third.ID).State == Done })
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, id := range []string{second.ID, third.ID} {
		if r := w.read(id); r.State != Done || r.Reason != "" {
			t.Errorf("%+v", r)
		}
	}
	for i := range n {
		if f := w.find(i); f.Shard == 0 && f.URL != address(i) {
			t.Errorf("the stopped redirect has changed notice %d", i)
		}
		if f := w.find(n + i); f.URL != other || f.Redirect != third.ID {
			t.Errorf("notice %d: %s, by %q", n+i, f.URL, f.Redirect)
		}
	}
}

// A client's redirects use up its share, and displace none of another client.
func TestRedirectsOfAClientDisplaceNoOthers(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	now := time.Now().UTC()
	add := func(client string, i int, state string) error {
		at := now.Add(time.Duration(i) * time.Second)
		return w.s.Add(t.Context(), &Job{ID: fmt.Sprint("rdr_", client, i), Client: client, State: state, Made: at, Changed: at}, 3)
	}
	if err := errors.Join(add("b", 0, Done), add("b", 1, Stopped)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := add("a", 10+i, Done); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		var full *FullError
		if err := add("a", 20+i, Running); (err != nil) != (i == 3) || err != nil && (!errors.As(err, &full) || full.Most != 3) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := add("b", 30, Running); err != nil {
		t.Error(err)
	}
	list, err := w.s.List(t.Context())
	own := map[string]int{}
	for _, r := range list {
		own[r.Client]++
	}
	if err != nil || own["a"] != 3 || own["b"] != 3 {
		t.Errorf("%v, %v", own, err)
	}
}

// A claim made after the redirect has begun applies its rule, although no driver has visited the notice. Claims made before
// are counted. A stop withdraws the rule, a resume stores it again.
func TestClaimAppliesRunningRedirects(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 2)
	for i := range 6 {
		w.put(i, address(i))
	}
	w.put(6, "https://other.example/x")
	was := w.find(1)
	before := w.claim(0)
	if before.URL != address(0) {
		t.Errorf("claimed before: %s", before.URL)
	}
	r := w.start(Rule{From: oldHooks, To: newHooks})
	if err := w.s.CountClaimed(t.Context(), w.routes, r); err != nil || r.InFlight != 1 {
		t.Errorf("%d claimed before, %v", r.InFlight, err)
	}
	second := w.start(Rule{From: newHooks + "/2", To: "https://third.example"})
	w.put(7, address(7)) // made later
	urls := map[int]string{1: newHooks + "/1?q=1", 2: "https://third.example?q=2", 6: "https://other.example/x", 7: address(7)}
	for i, want := range urls {
		c := w.claim(i)
		if c.URL != want {
			t.Errorf("notice %d: %s, want %s", i, c.URL, want)
		}
		if i == 1 {
			w.fail(c)
		}
	}
	w.moved(1, was, 1)
	turn := func(from, to, want string, i int) {
		t.Helper()
		for _, id := range []string{r.ID, second.ID} {
			if _, ok, err := w.s.Turn(t.Context(), id, from, to, time.Now()); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if c := w.claim(i); c.URL != want {
			t.Errorf("%s, notice %d: %s", to, i, c.URL)
		}
	}
	turn(Running, Stopped, address(3), 3)
	turn(Stopped, Running, newHooks+"/4?q=4", 4)
	w.fail(before)
	d := w.driver()
	for _, id := range []string{r.ID, second.ID} {
		if _, ok, err := w.s.Turn(t.Context(), id, Running, Done, time.Now()); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	drive(t.Context(), d)
	for shard := range 2 {
		if n := w.s.Wire().Redis.Exists(t.Context(), w.s.Space().Redirecting(shard)).Val(); n != 0 {
			t.Errorf("shard %d has rules of redirects that are over", shard)
		}
	}
}

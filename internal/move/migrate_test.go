package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// side is one of the two sides of a migration.
type side struct {
	srv  *testkit.Redis
	conn *wire.Conn
	ns   string
}

func newSide(t *testing.T, ns string) *side {
	t.Helper()
	s := &side{srv: testkit.SharedRedis(t), ns: ns}
	if ns == "" {
		s.ns = s.srv.Namespace()
	}
	var err error
	if s.conn, err = wire.Open(wire.Address{URL: s.srv.URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// store starts like an instance of this side. The first call writes a layout with that many shards.
func (s *side) store(t *testing.T, shards int) Redis {
	t.Helper()
	space, _, err := store.Discover(t.Context(), s.conn, keys.Space{Namespace: s.ns, Shards: shards}, false)
	if err != nil {
		t.Fatal(err)
	}
	x := On(store.New(store.Options{Client: s.conn.Commander, Space: space, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 1000}))
	if err := x.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

// alive publishes the heartbeat of an instance of this version.
func (s *side) alive(t *testing.T, x Redis) {
	t.Helper()
	if _, err := fleet.NewStore(x.Layout).Publish(t.Context(), fleet.Heartbeat{ID: "abcdefghijkl", About: `{"label":"new","version":"v2"}`,
		Figures: `{"since":1,"sides":true}`}); err != nil {
		t.Fatal(err)
	}
}

// logged is a Progress that writes to the log of a test.
type logged struct{ *testing.T }

func (l logged) Say(text string) { l.Log(text) }

func (logged) Moved(int, int64) {}

// texts is a Progress that keeps its texts.
type texts struct{ list []string }

func (x *texts) Say(text string) { x.list = append(x.list, text) }

func (*texts) Moved(int, int64) {}

// hook runs the steps of a migrator.
type hook func(name string, do func() error) error

func (h hook) run(name string, do func() error) error { return h(name, do) }

func migration(t *testing.T, a, b *side) MigrateOptions {
	return MigrateOptions{From: a.conn, To: b.conn, Names: [2]string{"old", "new"}, Namespace: a.ns, MaxSkew: 50 * time.Millisecond,
		Wait: time.Millisecond, Progress: logged{t}}
}

// two returns both sides, with a heartbeat of an instance on each.
func two(t *testing.T, shards int) (a, b *side, old, fresh Redis) {
	t.Helper()
	a = newSide(t, "")
	b = newSide(t, a.ns)
	old, fresh = a.store(t, 2), b.store(t, shards)
	a.alive(t, old)
	b.alive(t, fresh)
	return a, b, old, fresh
}

// total counts the records and the pending notices of a side.
func (s *side) total(x Redis) (records, pending int64) {
	for place := range x.Space().Places() {
		p := keys.Partition{Prefix: prefix, Shard: place}
		records += s.srv.Client().HLen(context.Background(), x.Space().Records(p)).Val()
		pending += s.srv.Client().ZCard(context.Background(), x.Space().Shadow(p)).Val()
	}
	return records, pending
}

// deaths returns the entries of a side's outboxes of hooks.
func deaths(t *testing.T, x Redis) (texts []string) {
	t.Helper()
	for place := range x.Space().Places() {
		some, err := x.Store.Deaths(t.Context(), place, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, some...)
	}
	slices.Sort(texts)
	return texts
}

// never is the number of a step that no migration reaches.
const never = 1 << 30

// killMigration kills a migration before or after its n-th step, checks both sides and finishes it. It
// returns the number of steps that ran.
func killMigration(t *testing.T, n int, after bool) (steps int) {
	a, b, old, fresh := two(t, 3)
	states, claims := fill(t, old, 24)
	defined := defineSome(t, old)
	for place := range 2 {
		if err := old.addDeaths(t.Context(), place, []string{fmt.Sprint(place, " a"), fmt.Sprint(place, " b")}); err != nil {
			t.Fatal(err)
		}
	}
	at := ""
	m := newMigrator(migration(t, a, b))
	m.dies = true
	m.hook = hook(func(name string, do func() error) error {
		steps++
		if steps < n {
			return do()
		}
		if steps > n {
			t.Fatal("a step after the kill")
		}
		at = name
		if after {
			if err := do(); err != nil {
				return err
			}
		}
		return errKilled
	})
	_, err := m.migrate(t.Context())
	if n == never && err != nil || n != never && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	for key, want := range states { // after the kill no answer is wrong
		var found int
		for _, x := range []Redis{old, fresh} {
			f, err := x.Store.Find(t.Context(), prefix, key)
			switch {
			case err == nil && f.State == want:
				found++
			case !errors.Is(err, wire.ErrMoved) && !(errors.Is(err, store.ErrNotFound) && x == fresh && fresh.Layout.Side().State == store.SideOpen):
				t.Fatalf("killed at %s: %s is %+v, %v; want %s", at, key, f, err, want)
			}
		}
		if found > 1 {
			t.Fatalf("killed at %s: %s is on both sides", at, key)
		}
	}
	defined.checkSides(t, at, old, fresh)
	done, err2 := Migrate(t.Context(), migration(t, a, b))
	if err2 != nil || done.Claimed != len(claims) || done.MissingN != 0 || !done.Open {
		t.Fatalf("killed at %s: %+v, %v", at, done, err2)
	}
	for _, c := range claims {
		if _, err := fresh.Store.Schedule(t.Context(), fresh.Space().Partition(prefix, c.Key), []store.Request{{Key: c.Key}}); err != nil {
			t.Fatal(err)
		}
		r, err := fresh.Store.Schedule(t.Context(), fresh.Space().Partition(prefix, c.Key), []store.Request{{Key: c.Key}})
		if err != nil || !errors.Is(r[0].Err, wire.ErrMoved) {
			t.Fatalf("%s is claimed on the old side, and the new side accepts a call on it: %+v, %v", c.Key, r, err)
		}
		got, err := old.Store.Settle(t.Context(), c.Partition(), []store.Settlement{{Claim: c, Ending: store.EndDelivered}})
		if err != nil || got[0].Stale {
			t.Fatalf("killed at %s: a settle was stale: %+v, %v", at, got, err)
		}
		states[c.Key] = notice.Delivered
	}
	if done, err2 = Migrate(t.Context(), migration(t, a, b)); err2 != nil || done.Moved != len(claims) || done.MissingN != 0 {
		t.Fatalf("killed at %s: %+v, %v", at, done, err2)
	}
	if side := fresh.Layout.Side(); side.State != store.SideOpen {
		if err := fresh.Layout.Known(t.Context()); err != nil || fresh.Layout.Side().State != store.SideOpen {
			t.Fatalf("killed at %s: %+v, %v", at, fresh.Layout.Side(), err)
		}
	}
	check(t, b.srv, fresh, states, 0)
	defined.check(t, at, fresh)
	defined.checkGone(t, at, old)
	if records, pending := a.total(old); records+pending != 0 {
		t.Fatalf("killed at %s: the old side has %d records, %d pending", at, records, pending)
	}
	left, there := deaths(t, old), deaths(t, fresh)
	if len(left) > 0 || !slices.Equal(slices.Compact(there), []string{"0 a", "0 b", "1 a", "1 b"}) {
		t.Fatalf("killed at %s: the outboxes of hooks have %q on the old side, %q on the new one", at, left, there)
	}
	return steps
}

// During a migration the old side refuses each kind of call on moved notices with ErrMoved, and accepts
// calls on all others. After the migration it refuses all.
func TestMigrateRefusesCallsOnMovedNotices(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b, old, fresh := two(t, 1)
	var ks []string
	for i := range 40 {
		ks = append(ks, fmt.Sprintf("app1:a:b:%d", i))
	}
	schedule := func(x Redis, ks ...string) map[string]error {
		t.Helper()
		out := map[string]error{}
		by := map[keys.Partition][]*store.Request{}
		for _, k := range ks {
			p := x.Space().Partition(prefix, k)
			by[p] = append(by[p], &store.Request{Key: k, Delay: time.Hour, Content: notice.Content{Body: []byte("1")}})
		}
		var batches []store.Batch
		for p, reqs := range by {
			batches = append(batches, store.Batch{Partition: p, Requests: reqs})
		}
		for i, got := range x.Store.ScheduleAll(ctx, batches) {
			for j, r := range batches[i].Requests {
				out[r.Key] = got.Err
				if got.Err == nil {
					out[r.Key] = got.Replies[j].Err
				}
			}
		}
		return out
	}
	schedule(old, ks...)
	m := newMigrator(migration(t, a, b))
	m.hook = hook(func(name string, do func() error) error {
		if name == "commit" {
			return errors.Join(do(), errKilled)
		}
		return do()
	})
	if _, err := m.migrate(ctx); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	gone, here := 0, ""
	for _, k := range ks {
		_, err := old.Store.Find(ctx, prefix, k)
		_, aerr := old.Store.Amend(ctx, prefix, k, store.Reschedule, store.When{Delay: 2 * time.Hour})
		back, err2 := old.Store.Restore(ctx, old.Space().Partition(prefix, k), []store.Letter{{Notice: &notice.Notice{Key: k, Made: 1}}})
		if err2 != nil || errors.Is(back[0].Err, wire.ErrMoved) != errors.Is(err, wire.ErrMoved) {
			t.Errorf("%s: %+v, %v", k, back, err2)
		}
		serr := schedule(old, k)[k]
		moved := errors.Is(err, wire.ErrMoved)
		if moved != errors.Is(aerr, wire.ErrMoved) || moved != errors.Is(serr, wire.ErrMoved) || !moved && (err != nil || aerr != nil ||
			serr != nil) {
			t.Errorf("%s: found %v, changed %v, scheduled %v", k, err, aerr, serr)
		}
		if moved {
			gone++
		} else {
			here = k
		}
	}
	if gone == 0 || gone == len(ks) {
		t.Fatalf("%d of %d moved", gone, len(ks))
	}
	changed := 0
	for _, k := range ks { // a chunk of one notice is skipped like one of many
		n, _, err := old.Store.AmendMany(ctx, store.Reschedule, []store.Amended{{Prefix: prefix, Key: k, When: store.When{Delay: 3 * time.Hour}}})
		if err != nil {
			t.Errorf("%s: a bulk call: %v", k, err)
		}
		changed += n
	}
	if changed != len(ks)-gone {
		t.Errorf("%d of %d changed by bulk calls", changed, len(ks)-gone)
	}
	all := schedule(old, append(ks, "app1:a:b:new")...)
	for _, k := range ks {
		if _, err := fresh.Store.Find(ctx, prefix, k); errors.Is(all[k], wire.ErrMoved) != (err == nil) {
			t.Errorf("%s: %v on the old side, %v on the new side", k, all[k], err)
		}
	}
	if all["app1:a:b:new"] != nil || all[here] != nil {
		t.Errorf("%v, %v", all["app1:a:b:new"], all[here])
	}
	for k, err := range schedule(fresh, ks...) {
		if !errors.Is(err, wire.ErrMoved) {
			t.Errorf("the new side accepts a call on %s: %v", k, err)
		}
	}
	if err := fresh.Layout.Pause(ctx, prefix); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("the new side is paused: %v", err)
	}
	if err := old.Layout.Pause(ctx, prefix); err != nil {
		t.Error(err)
	}
	done, err := Migrate(ctx, migration(t, a, b))
	if err != nil || done.Moved+gone != len(ks)+1 || done.Checked != len(ks)+1 {
		t.Fatalf("%+v, %v, %d moved before", done, err, gone)
	}
	for k, err := range schedule(old, append(ks, "app1:a:b:other")...) {
		if !errors.Is(err, wire.ErrMoved) {
			t.Errorf("the old side accepts a call on %s: %v", k, err)
		}
	}
	if _, err := old.Store.Find(ctx, prefix, "app1:a:b:other"); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("%v", err)
	}
	if paused, err := fresh.Layout.Paused(ctx); err != nil || !slices.Equal(paused, []string{prefix}) {
		t.Errorf("%v, %v", paused, err)
	}
	for k, err := range schedule(fresh, append(ks, "app1:a:b:other")...) {
		if err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if n, pending := b.total(fresh); n != int64(len(ks)+2) || pending != n {
		t.Errorf("%d records, %d pending", n, pending)
	}
	for k := range all { // the timers have moved too
		d := b.srv.Client().PTTL(ctx, k).Val()
		if there := a.srv.Client().Exists(ctx, k).Val(); d < 50*time.Minute || there != 0 {
			t.Errorf("the timer of %s has %s left on the new side; %d timers on the old side", k, d, there)
		}
	}
	if err := a.conn.Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

// ahead is a hook that puts a server's clock forward.
type ahead struct{ by time.Duration }

func (h ahead) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h ahead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h ahead) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if now, ok := cmd.(*redis.TimeCmd); ok {
			now.SetVal(now.Val().Add(h.by))
		}
		return err
	}
}

// A migration between Redis servers whose clocks differ is refused, at its start and before each batch.
// At the start nothing has changed; later no notice is lost, and the next run finishes.
func TestMigrateRefusesClockSkew(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{200 * time.Millisecond, -200 * time.Millisecond} {
		a, b, old, fresh := two(t, 1)
		states, _ := fill(t, old, 12)
		b.conn.AddHook(ahead{by})
		begun, err := Migrate(t.Context(), migration(t, a, b))
		if !errors.Is(err, ErrSkew) || begun.Begun || !strings.Contains(err.Error(), "50ms") {
			t.Errorf("%v", err)
		}
		if records, _ := a.total(old); records != int64(len(states)) || old.Layout.Side().State != store.SideOpen ||
			fresh.Layout.Side().State != store.SideOpen {
			t.Errorf("%d records, %v, %v", records, old.Layout.Side(), fresh.Layout.Side())
		}
		b.conn.AddHook(ahead{-by})
		m := newMigrator(migration(t, a, b))
		n := 0
		m.hook = hook(func(name string, do func() error) error {
			if name == "commit" {
				if n++; n == 2 {
					b.conn.AddHook(ahead{by})
				}
			}
			return do()
		})
		if begun, err := m.migrate(t.Context()); !errors.Is(err, ErrSkew) || !begun.Begun || n != 2 {
			t.Errorf("%v after %d steps", err, n)
		}
		b.conn.AddHook(ahead{-by})
		if done, err := Migrate(t.Context(), migration(t, a, b)); err != nil || !done.Open {
			t.Errorf("%+v, %v", done, err)
		}
	}
}

// A notice that is due soon stays, so that it is not late if the mover is killed. A notice that is long
// overdue moves.
func TestMigrateLeavesNoticesDueSoon(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b, old, fresh := two(t, 1)
	for i, d := range []time.Duration{10 * time.Minute, 3 * time.Hour} {
		k := fmt.Sprintf("app1:a:b:%d", i)
		if _, err := old.Store.Schedule(ctx, old.Space().Partition(prefix, k), []store.Request{{Key: k, Delay: d}}); err != nil {
			t.Fatal(err)
		}
	}
	p := old.Space().Partition(prefix, "app1:a:b:2")
	if _, err := old.Store.Schedule(ctx, p, []store.Request{{Key: "app1:a:b:2"}}); err != nil {
		t.Fatal(err)
	}
	past := float64(time.Now().Add(-2*time.Hour).UnixMilli()) + .5
	if err := a.srv.Client().ZAdd(ctx, old.Space().Shadow(p), redis.Z{Score: past, Member: "app1:a:b:2"}).Err(); err != nil {
		t.Fatal(err)
	}
	m := newMigrator(migration(t, a, b))
	m.near = time.Hour
	done, err := m.migrate(ctx)
	if err != nil || done.Moved != 2 || done.Soon != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := fresh.Store.Find(ctx, prefix, "app1:a:b:0"); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("%v", err)
	}
}

// The history is stored by data identity: with another identity the new side would have no history.
func TestMigrateCopiesIdentityFirst(t *testing.T) {
	t.Parallel()
	a, b, old, fresh := two(t, 3)
	fill(t, old, 4)
	id, err := old.Layout.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if own, err := fresh.Layout.Identity(t.Context()); err != nil || own == id {
		t.Fatalf("before: %q, %v", own, err)
	}

	m := newMigrator(migration(t, a, b))
	m.hook = hook(func(name string, do func() error) error {
		err := do()
		if name == "forget" && fresh.Layout.Side().State == store.SideOpen {
			return err // the new side is still open
		}
		if got, ierr := fresh.Layout.Identity(t.Context()); ierr != nil || got != id {
			t.Errorf("after %s: %q, %v; want %q", name, got, ierr, id)
		}
		return err
	})
	if _, err := m.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A record names its client by a number, so the hash of the numbers must be copied too.
func TestMigrateAndReshardKeepClient(t *testing.T) {
	t.Parallel()
	a, b, old, fresh := two(t, 3)
	const key = "app1:a:b:1"
	n, err := old.Store.Clients.Number(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Store.Schedule(t.Context(), old.Space().Partition(prefix, key), []store.Request{{Key: key, Delay: time.Hour,
		Client: n}}); err != nil {
		t.Fatal(err)
	}
	named := func(when string, s Redis) {
		t.Helper()
		f, err := s.Store.Find(t.Context(), prefix, key)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := s.Store.Clients.Name(t.Context(), f.Client); got != "shop" {
			t.Errorf("%s: %q", when, got)
		}
	}
	fails := receivers.NewTracker()
	fails.Observe(prefix, "shop.example:443", receivers.Attempt{At: time.Now(), Failed: true})
	if err := (&receivers.HealthStore{Wire: old.Wire()}).Write(t.Context(), fails); err != nil {
		t.Fatal(err)
	}
	m := newMigrator(migration(t, a, b))
	m.hook = hook(func(name string, do func() error) error {
		err := do()
		if name == "pauses" && m.sides[0].State == store.SideLeft { // a client schedules for the first time while notices move
			if _, err := old.Store.Clients.Number(t.Context(), "late"); err != nil {
				t.Fatal(err)
			}
		}
		return err
	})
	if _, err := m.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	named("migrated", fresh)
	late, err := old.Store.Clients.Number(t.Context(), "late")
	if err != nil {
		t.Fatal(err)
	}
	if list, err := fresh.Store.Clients.Numbers(t.Context()); err != nil || list["late"] != late || list["shop"] != n {
		t.Errorf("%v, %v; want late %d and shop %d", list, err, late, n)
	}
	got, err := (&receivers.HealthStore{Wire: fresh.Wire()}).Read(t.Context(), []string{prefix})
	if err != nil || got[0].Failing(time.Now()) != 1 {
		t.Errorf("the health of receivers was not copied: %+v, %v", got, err)
	}
	space := fresh.Space() // without heartbeats Reshard waits for no instance
	if err := b.srv.Client().Del(t.Context(), space.FleetSigns(), space.FleetAbout()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := Reshard(t.Context(), Options{Conn: b.conn, Namespace: b.ns, To: 5, Force: true, Progress: logged{t}}); err != nil {
		t.Fatal(err)
	}
	named("resharded", b.store(t, 5))
}

func TestMigrateReportsClientsWithOtherNumbers(t *testing.T) {
	t.Parallel()
	a, b, old, fresh := two(t, 1)
	n, err := old.Store.Clients.Number(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.srv.Client().HSet(t.Context(), fresh.Space().Clients(), "other", n).Err(); err != nil {
		t.Fatal(err)
	}
	o := migration(t, a, b)
	said := &texts{}
	o.Progress = said
	if _, err := newMigrator(o).migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(said.list, func(s string) bool { return strings.Contains(s, "number these clients differently: shop.") }) {
		t.Errorf("said %q", said.list)
	}
}

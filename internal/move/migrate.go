package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/fleet"
	"notifier/internal/health"
	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/session"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// MigrateOptions are those of Migrate.
type MigrateOptions struct {
	// From and To are the two sides, and Names theirs for people, without passwords.
	From, To  *wire.Conn
	Names     [2]string
	Namespace string
	// Shards is how many the new side gets at its first start; 0 = as many as the old
	// one, and one for each master of a cluster at least.
	Shards int
	// MaxSkew is how far apart the clocks may be.
	MaxSkew time.Duration
	// Wait is how long it is waited at the end for attempts that are under way.
	Wait time.Duration
	// Force goes on although instances live that know nothing of migrations, or none
	// lives on the new side.
	Force bool
	// DryRun only counts.
	DryRun bool
	// Confirm is what is waited for before what has arrived is forgotten where it was.
	Confirm wire.Confirm
	// Say hears what is being done, OnMoved how many notices have gone of how many.
	Say     func(text string)
	OnMoved func(n int, of int64)
}

// Migrated is what a Migrate has come to.
type Migrated struct {
	// Begun: both sides are prepared, and notices may be on their way.
	Begun bool `json:"-"`
	Moved int  `json:"moved"`
	// Claimed, Reported and Soon are how many notices stay on the old side until their
	// attempt ends, until they are reported, and because they fall due there within
	// seconds.
	Claimed  int `json:"claimed"`
	Reported int `json:"await_reports"`
	Soon     int `json:"due_soon"`
	// Both are how many stay since a later notice of their key waits on the new side: each
	// is delivered where it is.
	Both int `json:"of_both_sides"`
	// Open: the new side takes calls that schedule or change notices, the old one none.
	Open bool `json:"open"`
	// RefusedMS is for how long neither did.
	RefusedMS int64 `json:"refused_ms"`
	SkewMS    int64 `json:"skew_ms"`
	// Old and New are what each side holds at the end, and of a dry run now.
	Old []Count `json:"old"`
	New []Count `json:"new"`
	// Checked is how many of the notices that left were looked for on the new side.
	Checked int `json:"checked"`
	// Missing are some of those that are not there and should be, MissingN is how many.
	Missing  []string `json:"missing,omitempty"`
	MissingN int      `json:"missing_count"`
	// Endings is how many endings the old side has yet to bring to its history.
	Endings int64 `json:"endings_for_history"`
}

// Count is what a side holds of a prefix.
type Count struct {
	Prefix  string `json:"prefix"`
	Pending int64  `json:"pending"`
	Dead    int64  `json:"dead"`
	Settled int64  `json:"settled"`
	Paused  bool   `json:"paused,omitempty"`
}

const (
	// What is due so soon stays: it is delivered where it is sooner than a mover that
	// was killed is run again.
	dueSoon = 2 * time.Second
	// fewMoved is after how few notices of a pass the old side is closed, mostPasses
	// after how many passes it is at the latest.
	fewMoved, mostPasses = 500, 10
	// lastFor is for how long passes are repeated while neither side takes calls.
	lastFor   = time.Second
	lateEvery = 250 * time.Millisecond
)

// migrator is one call of Migrate.
type migrator struct {
	MigrateOptions
	from, to *store.Store
	homes    [2]string
	sides    [2]layout.Side // as they are, of from and to
	id       string
	clocks   clocks
	total    int64
	done     Migrated
	near     time.Duration            // see dueSoon
	copied   map[string]int64         // how many tombstones were copied, by place and bucket
	trimmed  map[int]map[string]int64 // by place, what was trimmed when they were copied
	// step does what changes something; tests end it there.
	step func(name string, do func() error) error
	// dies: it is killed where it fails, as tests have it, and does nothing more.
	dies bool
}

// Migrate brings what a Redis keeps to another one, while instances of both deliver: see
// the package. If it is ended, the same call goes on.
func Migrate(ctx context.Context, o MigrateOptions) (Migrated, error) {
	return newMigrator(o).migrate(ctx)
}

func newMigrator(o MigrateOptions) *migrator {
	return &migrator{MigrateOptions: o, near: dueSoon, copied: map[string]int64{}, trimmed: map[int]map[string]int64{},
		step: func(_ string, do func() error) error { return do() }}
}

func (m *migrator) migrate(ctx context.Context) (Migrated, error) {
	m.clocks = clocks{m.From, m.To, m.MaxSkew}
	n, err := m.From.Exists(ctx, keys.Space{Namespace: m.Namespace}.Meta()).Result()
	if err != nil {
		return m.done, wire.Wrap("the old side", err)
	}
	if n == 0 {
		return m.done, fmt.Errorf("%w: no instance has begun on %s under the namespace %s, so there is nothing to move", ErrRefused, m.Names[0],
			m.Namespace)
	}
	skew, err := m.clocks.check(ctx)
	if m.done.SkewMS = skew.Milliseconds(); err != nil {
		return m.done, err
	}
	if m.from, err = m.open(ctx, m.From, 0); err != nil {
		return m.done, fmt.Errorf("the old side: %w", err)
	}
	if m.DryRun {
		return m.count(ctx)
	}
	from, releaseFrom, err := alone(ctx, m.from)
	if err != nil {
		return m.done, fmt.Errorf("the old side: %w", err)
	}
	defer releaseFrom()
	if err := m.able(from, m.from, false); err != nil {
		return m.done, fmt.Errorf("the old side: %w", err)
	}
	if err := m.openFar(from); err != nil {
		return m.done, fmt.Errorf("the new side: %w", err)
	}
	both, releaseTo, err := alone(from, m.to)
	if err != nil {
		return m.done, fmt.Errorf("the new side: %w", err)
	}
	defer releaseTo()
	err = m.run(both)
	for _, held := range []context.Context{both, from} {
		if cause := context.Cause(held); err != nil && cause != nil {
			err = cause
		}
	}
	if errors.Is(err, wire.ErrUnconfirmed) {
		err = fmt.Errorf("%w; NOTIFIER_DURABILITY holds for both sides here: set it to what both can confirm, and run this again", err)
	}
	return m.done, err
}

// open makes a Store of one side, and learns what is there; shards is how many it gets
// if nothing is.
func (m *migrator) open(ctx context.Context, c *wire.Conn, shards int, prefixes ...string) (*store.Store, error) {
	cluster := c.Masters != nil
	space, _, err := layout.Discover(ctx, c, keys.Space{Namespace: m.Namespace, Shards: shards}, cluster)
	if err != nil {
		return nil, err
	}
	s := store.New(store.Options{Client: c.UniversalClient, Space: space, Cluster: cluster, Nodes: c.Nodes, Conn: c, Confirm: m.Confirm,
		Prefixes: prefixes,
		Adopts:   func(string) bool { return true }})
	if err := s.Wire().Detect(ctx); err != nil {
		return nil, err
	}
	return s, s.Learn(ctx)
}

// openFar opens the new side, which begins with this if nothing is there.
func (m *migrator) openFar(ctx context.Context) error {
	shards := m.Shards
	n, err := m.To.Exists(ctx, keys.Space{Namespace: m.Namespace}.Meta()).Result()
	if err != nil {
		return wire.Wrap("meta", err)
	}
	if n == 0 && shards == 0 {
		if shards, err = m.shards(ctx); err != nil {
			return err
		}
	}
	m.to, err = m.open(ctx, m.To, shards, m.from.Prefixes()...)
	return err
}

// shards is how many the new side gets if nobody says it.
func (m *migrator) shards(ctx context.Context) (int, error) {
	n := m.from.Space().Now().Shards
	if m.To.Masters == nil {
		return n, nil
	}
	ranges, err := m.To.UniversalClient.ClusterSlots(ctx).Result()
	if err != nil {
		return 0, wire.Wrap("cluster slots", err)
	}
	masters := map[string]bool{} // each may have many ranges
	for _, r := range ranges {
		if len(r.Nodes) > 0 {
			masters[r.Nodes[0].Addr] = true
		}
	}
	return max(n, len(masters)), nil
}

// able refuses where an instance lives that knows nothing of migrations and, of the new
// side, where none lives.
func (m *migrator) able(ctx context.Context, s *store.Store, some bool) error {
	if m.Force {
		return nil
	}
	lives, err := able(ctx, s, "migrations", func(f fleet.Figures) bool { return f.Sides }, some)
	if err == nil && some && !lives {
		err = fmt.Errorf("%w: no instance lives there. It is prepared, and opens to nobody before notices have moved: start instances with "+
			"NOTIFIER_REDIS_URL set to %s, which answer calls with 503 until then, and run this again (or say --force)", ErrRefused, m.Names[1])
	}
	return err
}

func (m *migrator) run(ctx context.Context) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	m.done.Begun = true
	if err := m.clients(ctx); err != nil {
		return err
	}
	if err := m.finish(ctx); err != nil {
		return err
	}
	m.total = 0
	for place := range m.from.Space().Places() {
		n, err := m.from.Records(ctx, place)
		if err != nil {
			return err
		}
		m.total += n
	}
	if m.sides[1].State == layout.SideComing {
		if err := m.cross(ctx); err != nil {
			return err
		}
	}
	m.done.Open = true
	if err := m.late(ctx); err != nil {
		return err
	}
	return m.compare(ctx)
}

// finish brings in what another mover has left on its way.
func (m *migrator) finish(ctx context.Context) error {
	for place := range m.from.Space().Places() {
		if err := m.step("finish", func() error { return m.from.FinishLeaving(ctx, m.to, place) }); err != nil {
			return err
		}
	}
	return nil
}

func formerShards(n int) string {
	if n == 1 {
		return "1 former shard"
	}
	return fmt.Sprintf("%d former shards", n)
}

func refusedIf(yes bool, text string) error {
	if yes {
		return fmt.Errorf("%w: %s", ErrRefused, text)
	}
	return nil
}

// eachElsewhere goes through what is on the other side.
func eachElsewhere(ctx context.Context, s *store.Store, f func(place int, was map[string]string) error) error {
	for place := range s.Space().Places() {
		for cursor := uint64(0); ; {
			was, next, err := s.Elsewhere(ctx, place, cursor, scanned)
			if err != nil {
				return err
			}
			if err := f(place, was); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// settings gives the new side what is no notice.
func (m *migrator) settings(ctx context.Context) error {
	return m.step("settings", func() error {
		return errors.Join(m.from.CopyKey(ctx, m.to), m.from.CopyPauses(ctx, m.to), m.links(ctx), m.trail(ctx), m.health(ctx))
	})
}

// health gives the new side the health of receivers.
func (m *migrator) health(ctx context.Context) error {
	from, to := health.Store{Wire: m.from.Wire()}, health.Store{Wire: m.to.Wire()}
	return from.Copy(ctx, &to, m.from.Prefixes())
}

// links gives the new side the links to the pages.
func (m *migrator) links(ctx context.Context) error {
	from, to := session.Store{Wire: m.from.Wire()}, session.Store{Wire: m.to.Wire()}
	return from.CopyLinks(ctx, &to)
}

// trail gives the new side the audit.
func (m *migrator) trail(ctx context.Context) error {
	from, to := audit.Store{Wire: m.from.Wire()}, audit.Store{Wire: m.to.Wire()}
	return from.Copy(ctx, &to)
}

func (m *migrator) pauses(ctx context.Context) error {
	return m.step("pauses", func() error { return m.from.CopyPauses(ctx, m.to) })
}

// cross moves what is not claimed, and opens the new side.
// clients gives the new side the numbers by which records name clients. A client whose number
// is another one's there is reported: the migration does not fail for it.
func (m *migrator) clients(ctx context.Context) error {
	return m.step("clients", func() error {
		list, err := m.from.ClientNumbers(ctx)
		if err != nil {
			return err
		}
		differ, err := m.to.AddClientNumbers(ctx, list)
		if len(differ) > 0 {
			slices.Sort(differ)
			m.Say(fmt.Sprintf("%s and %s number these clients differently: %s. Their notices that move name another client, or none (%s on both "+
				"sides has the numbers)",
				m.Names[0], m.Names[1], strings.Join(differ, ", "), m.from.Space().Clients()))
		}
		return err
	})
}

func (m *migrator) cross(ctx context.Context) error {
	if m.sides[0].State == layout.SideLeaving {
		for _, kind := range []store.Kind{store.KindSettled, store.KindDead} {
			if _, err := m.pass(ctx, kind); err != nil {
				return err
			}
		}
		for range mostPasses {
			if err := m.pauses(ctx); err != nil {
				return err
			}
			if got, err := m.pass(ctx, store.KindAll); err != nil {
				return err
			} else if got.Moved <= fewMoved {
				break
			}
		}
		if err := m.set(ctx, 0, layout.SideLeft); err != nil {
			return err
		}
	}
	closed := time.Now()
	m.Say(m.Names[0] + " takes no calls any more that schedule or change notices; what has come meanwhile is moved")
	if err := m.last(ctx); err != nil {
		m.reopen(ctx)
		return err
	}
	err := m.set(ctx, 1, layout.SideOpened)
	m.done.RefusedMS = time.Since(closed).Milliseconds()
	if err != nil {
		return err // who knows whether it is open
	}
	m.Say(fmt.Sprintf("%s is open, after %s in which neither side took such calls: point producers there now", m.Names[1],
		time.Since(closed).Round(time.Millisecond)))
	return nil
}

// last moves what is left on a side that is closed, and tells the new one what is still
// to come.
func (m *migrator) last(ctx context.Context) error {
	// Producers of plain timers may go on for ever: theirs are for late, and the next run.
	for until := time.Now().Add(lastFor); ; {
		got, err := m.pass(ctx, store.KindAll)
		if err != nil {
			return err
		}
		if got.Moved == 0 || time.Now().After(until) {
			break
		}
	}
	if err := m.pauses(ctx); err != nil {
		return err
	}
	if err := m.clients(ctx); err != nil { // some may have scheduled for the first time
		return err
	}
	return m.announce(ctx, 0)
}

// reopenFor is how long it is tried to open the old side again.
const reopenFor = 5 * time.Second

// reopen has the old side take calls again after the last pass has failed, or was broken
// off: else neither side would until somebody runs this again.
func (m *migrator) reopen(ctx context.Context) {
	if m.dies || errors.Is(context.Cause(ctx), errHold) {
		return // another mover may be at work by now
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), reopenFor)
	defer stop()
	if m.change(ctx, 0, layout.SideLeaving) == nil {
		m.Say(m.Names[0] + " takes such calls again, since this is not done")
	}
}

// late moves what has stayed, as long as it is worth waiting for.
func (m *migrator) late(ctx context.Context) error {
	for until := time.Now().Add(m.Wait); ; {
		got, err := m.pass(ctx, store.KindAll)
		if err != nil {
			return err
		}
		m.done.Claimed, m.done.Reported, m.done.Soon, m.done.Both = got.Held.Claimed, got.Held.Reported, got.Held.Soon, got.Held.Both
		if got.Moved == 0 && got.Held.Claimed+got.Held.Soon == 0 || time.Now().After(until) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lateEvery):
		}
	}
	if m.done.Claimed+m.done.Reported+m.done.Soon > 0 || m.sides[1].State != layout.SideOpened {
		return nil
	}
	if err := m.forget(ctx, 1); err != nil { // the marks of notices that have ended on the old side and are not kept
		return err
	}
	return m.set(ctx, 1, layout.SideOpen)
}

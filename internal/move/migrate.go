package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/receivers"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// MigrateOptions are the options of Migrate.
type MigrateOptions struct {
	// From is the old side, To the new side. Names are their names in messages, without passwords.
	From, To  *wire.Conn
	Names     [2]string
	Namespace string
	// Shards is the number of shards of an empty new side. 0 = as many as the old side has, but in a
	// cluster at least one for each master.
	Shards int
	// MaxSkew is the maximum difference of the clocks.
	MaxSkew time.Duration
	// Wait limits how long Migrate waits at the end for attempts in flight.
	Wait time.Duration
	// Force ignores instances that do not support migrations, and a new side without instances.
	Force bool
	// DryRun counts notices and moves none.
	DryRun bool
	// Confirm is the durability that an import needs before the source deletes the batch.
	Confirm wire.Confirm
	// Progress receives the steps. It may be nil.
	Progress Progress
}

// Migrated is the result of Migrate.
type Migrated struct {
	// Begun: both sides are prepared, and notices may have moved.
	Begun bool `json:"-"`
	Moved int  `json:"moved"`
	// Claimed, Reported and Soon count the notices that stay on the old side: until their attempt ends,
	// until their outcome is reported, and because they are due within seconds.
	Claimed  int `json:"claimed"`
	Reported int `json:"await_reports"`
	Soon     int `json:"due_soon"`
	// Both counts the notices that stay because the new side has a pending notice of their key. Both
	// notices are delivered.
	Both int `json:"of_both_sides"`
	// Open: the new side accepts calls that schedule or change notices, and the old side refuses them.
	Open bool `json:"open"`
	// RefusedMS is how long both sides refused such calls.
	RefusedMS int64 `json:"refused_ms"`
	SkewMS    int64 `json:"skew_ms"`
	// Old and New count the notices of each side at the end, or in a dry run now.
	Old []Count `json:"old"`
	New []Count `json:"new"`
	// Checked is the number of moved notices that were looked for on the new side.
	Checked int `json:"checked"`
	// Missing has up to mostMissing keys of notices that should be on the new side and are not.
	// MissingN counts all of them.
	Missing  []string `json:"missing,omitempty"`
	MissingN int      `json:"missing_count"`
	// Outbox is the number of finalized notices that the old side has not yet written to its history.
	Outbox int64 `json:"endings_for_history"`
}

// Count counts the notices of a prefix on one side.
type Count struct {
	Prefix  string `json:"prefix"`
	Pending int64  `json:"pending"`
	Dead    int64  `json:"dead"`
	Settled int64  `json:"settled"`
	Paused  bool   `json:"paused,omitempty"`
}

const (
	// A notice that is due within dueSoon stays. The old side delivers it before a killed mover could
	// be restarted.
	dueSoon = 2 * time.Second
	// The old side is closed after a pass that moved at most fewMoved notices, and at the latest after
	// mostPasses passes.
	fewMoved, mostPasses = 500, 10
	// lastFor limits how long passes are repeated while both sides refuse calls.
	lastFor   = time.Second
	restEvery = 250 * time.Millisecond // pause between the passes of moveRest
)

// migrator is one call of Migrate.
type migrator struct {
	MigrateOptions
	from, to  Redis
	homes     [2]string
	sides     [2]store.Side // the current states of from and to
	id        string
	clocks    clocks
	total     int64
	keepsNone bool // the new side stores no finalized notices
	done      Migrated
	near      time.Duration            // see dueSoon
	copied    map[string]int64         // number of copied tombstones, by place and bucket
	trimmed   map[int]map[string]int64 // by place, the result of Redis.trimmed at the last copy
	hook      stepper
	// dies makes a failed step end the migration without cleaning up, like a kill. Tests set it.
	dies bool
}

// Migrate moves all notices of one Redis to another while the instances of both deliver; see the
// package doc. If Migrate is interrupted, a second call with the same options continues.
func Migrate(ctx context.Context, o MigrateOptions) (Migrated, error) {
	return newMigrator(o).migrate(ctx)
}

func newMigrator(o MigrateOptions) *migrator {
	o.Progress = orQuiet(o.Progress)
	return &migrator{MigrateOptions: o, near: dueSoon, copied: map[string]int64{}, trimmed: map[int]map[string]int64{}}
}

// stepper runs each step that writes to a Redis. Tests interrupt a migration at one of them.
type stepper interface {
	run(name string, do func() error) error
}

// step runs a step that writes to a Redis.
func (m *migrator) step(name string, do func() error) error {
	if m.hook != nil {
		return m.hook.run(name, do)
	}
	return do()
}

func (m *migrator) migrate(ctx context.Context) (Migrated, error) {
	m.clocks = clocks{m.From, m.To, m.MaxSkew}
	if err := m.openOld(ctx); err != nil {
		return m.done, err
	}
	if m.DryRun {
		return m.count(ctx)
	}

	from, releaseFrom, err := exclusive(ctx, m.from)
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

	both, releaseTo, err := exclusive(from, m.to)
	if err != nil {
		return m.done, fmt.Errorf("the new side: %w", err)
	}

	defer releaseTo()

	return m.done, m.cause(m.run(both), both, from)
}

// openOld opens the old side, and compares the clocks.
func (m *migrator) openOld(ctx context.Context) error {
	n, err := m.From.Exists(ctx, keys.Space{Namespace: m.Namespace}.Meta()).Result()
	if err != nil {
		return wire.Wrap("the old side", err)
	}

	if n == 0 {
		return fmt.Errorf("%w: no instance has started on %s with the namespace %s, so there is nothing to move", ErrRefused, m.Names[0],
			m.Namespace)
	}

	skew, err := m.clocks.check(ctx)
	if m.done.SkewMS = skew.Milliseconds(); err != nil {
		return err
	}
	if m.from, err = m.open(ctx, m.From, 0); err != nil {
		return fmt.Errorf("the old side: %w", err)
	}

	return nil
}

// cause returns the error of a run. If a lock was lost, that is the error.
func (m *migrator) cause(err error, held ...context.Context) error {
	for _, ctx := range held {
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
	}

	if errors.Is(err, wire.ErrUnconfirmed) {
		err = fmt.Errorf("%w; NOTIFIER_DURABILITY applies to both sides: set it to a value that both can confirm, and run this again", err)
	}

	return err
}

// open returns one side and reads its layout. If the side has no layout yet, open writes one with the
// given number of shards.
func (m *migrator) open(ctx context.Context, c *wire.Conn, shards int, prefixes ...string) (Redis, error) {
	cluster := c.Masters != nil
	space, _, err := store.Discover(ctx, c, keys.Space{Namespace: m.Namespace, Shards: shards}, cluster)
	if err != nil {
		return Redis{}, err
	}

	s := On(store.New(store.Options{Client: c.Commander, Space: space, Cluster: cluster, Nodes: c.Nodes, Conn: c, Confirm: m.Confirm,
		Prefixes: prefixes, Adopts: func(string) bool { return true }}))
	if err := s.Wire().Detect(ctx); err != nil {
		return Redis{}, err
	}

	return s, s.Layout.Learn(ctx)
}

// openFar opens the new side. If the new side is empty, openFar writes its layout.
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

	m.to, err = m.open(ctx, m.To, shards, m.from.Layout.Members()...)
	return err
}

// shards returns the number of shards of an empty new side if the options do not set it.
func (m *migrator) shards(ctx context.Context) (int, error) {
	n := m.from.Space().Now().Shards
	if m.To.Masters == nil {
		return n, nil
	}

	ranges, err := m.To.Commander.ClusterSlots(ctx).Result()
	if err != nil {
		return 0, wire.Wrap("cluster slots", err)
	}

	masters := map[string]bool{} // by address: one master may have several ranges
	for _, r := range ranges {
		if len(r.Nodes) > 0 {
			masters[r.Nodes[0].Addr] = true
		}
	}

	return max(n, len(masters)), nil
}

// able returns ErrRefused if an instance of a side does not support migrations. If some is true, it
// also does if no instance of the side is alive.
func (m *migrator) able(ctx context.Context, s Redis, some bool) error {
	if m.Force {
		return nil
	}

	lives, err := able(ctx, s, "migrations", func(f fleet.Figures) bool { return f.Sides }, some)
	if err == nil && some && !lives {
		err = fmt.Errorf("%w: no instance is alive on the new side, which is prepared and refuses calls until the notices have moved: start "+
			"instances with NOTIFIER_REDIS_URL set to %s, and run this again (or use --force)", ErrRefused, m.Names[1])
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
		n, err := m.from.Layout.Records(ctx, place)
		if err != nil {
			return err
		}

		m.total += n
	}

	if m.sides[1].State == store.SideComing {
		if err := m.cross(ctx); err != nil {
			return err
		}
	}

	m.done.Open = true

	if err := m.moveRest(ctx); err != nil {
		return err
	}

	if err := m.compare(ctx); err != nil {
		return err
	}

	return m.dropSeals(ctx)
}

// finish completes the batches of another mover.
func (m *migrator) finish(ctx context.Context) error {
	for place := range m.from.Space().Places() {
		if err := m.step("finish", func() error { return m.from.finishFar(ctx, m.to, place) }); err != nil {
			return err
		}
	}
	return nil
}

func refusedIf(yes bool, text string) error {
	if yes {
		return fmt.Errorf("%w: %s", ErrRefused, text)
	}
	return nil
}

// settings copies all data except notices to the new side: key, pauses, links, audit and health.
func (m *migrator) settings(ctx context.Context) error {
	return m.step("settings", func() error {
		return errors.Join(m.from.copyKey(ctx, m.to), m.from.copyPauses(ctx, m.to), m.links(ctx), m.trail(ctx), m.health(ctx))
	})
}

// health copies the health of receivers to the new side.
func (m *migrator) health(ctx context.Context) error {
	from, to := receivers.HealthStore{Wire: m.from.Wire()}, receivers.HealthStore{Wire: m.to.Wire()}
	return from.Copy(ctx, &to, m.from.Prefixes())
}

// links copies the links to the dashboard to the new side.
func (m *migrator) links(ctx context.Context) error {
	from, to := auth.SessionStore{Wire: m.from.Wire()}, auth.SessionStore{Wire: m.to.Wire()}
	return from.CopyLinks(ctx, &to)
}

// trail copies the audit to the new side.
func (m *migrator) trail(ctx context.Context) error {
	from, to := audit.Store{Wire: m.from.Wire()}, audit.Store{Wire: m.to.Wire()}
	return from.Copy(ctx, &to)
}

func (m *migrator) pauses(ctx context.Context) error {
	return m.step("pauses", func() error { return m.from.copyPauses(ctx, m.to) })
}

// clients copies the numbers by which records name clients to the new side. If a number belongs to
// another client there, clients reports it, and the migration continues.
func (m *migrator) clients(ctx context.Context) error {
	return m.step("clients", func() error {
		list, err := m.from.Store.Clients.Numbers(ctx)
		if err != nil {
			return err
		}

		differ, err := m.to.addClients(ctx, list)
		if len(differ) > 0 {
			slices.Sort(differ)
			m.Progress.Say(fmt.Sprintf("%s and %s number these clients differently: %s. Their moved notices name another client, or none "+
				"(%s on both sides has the numbers)", m.Names[0], m.Names[1], strings.Join(differ, ", "), m.from.Space().Clients()))
		}

		return err
	})
}

// cross moves the unclaimed notices, and opens the new side.
func (m *migrator) cross(ctx context.Context) error {
	if m.sides[0].State == store.SideLeaving {
		if err := m.passes(ctx); err != nil {
			return err
		}
		if err := m.compareClosed(ctx); err != nil {
			return err
		}
		if err := m.set(ctx, 0, store.SideLeft); err != nil {
			return err
		}
	}

	closed := time.Now()
	m.Progress.Say(m.Names[0] + " now refuses calls that schedule or change notices; moving the notices scheduled since the last pass")
	if err := m.last(ctx); err != nil {
		m.reopen(ctx)
		return err
	}

	err := m.set(ctx, 1, store.SideOpened)
	m.done.RefusedMS = time.Since(closed).Milliseconds()
	if err != nil {
		return err // the new side may be open or not
	}

	m.Progress.Say(fmt.Sprintf("%s is open, after %s in which both sides refused such calls: point producers to it now", m.Names[1],
		time.Since(closed).Round(time.Millisecond)))
	return nil
}

// passes moves notices while the old side accepts calls, until a pass has moved at most fewMoved.
func (m *migrator) passes(ctx context.Context) error {
	for _, of := range []kind{settled, dead} {
		if _, err := m.pass(ctx, of); err != nil {
			return err
		}
	}

	for range mostPasses {
		if err := m.pauses(ctx); err != nil {
			return err
		}
		if err := m.seals(ctx); err != nil {
			return err
		}

		got, err := m.pass(ctx, all)
		if err != nil || got.Moved <= fewMoved {
			return err
		}
	}

	return nil
}

// last moves the remaining notices while both sides refuse calls, and marks on the new side the
// notices that stay.
func (m *migrator) last(ctx context.Context) error {
	// Producers of plain timers do not stop. Their notices are left to moveRest and the next run.
	for until := time.Now().Add(lastFor); ; {
		got, err := m.pass(ctx, all)
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
	if err := m.seals(ctx); err != nil {
		return err
	}
	if err := m.clients(ctx); err != nil { // clients may have scheduled their first notice since
		return err
	}
	if err := m.step("health", func() error { return m.health(ctx) }); err != nil { // receivers may have begun to fail since
		return err
	}
	if err := m.copyDefinitions(ctx); err != nil {
		return err
	}

	return m.announce(ctx, 0)
}

// reopenFor is the timeout of reopen.
const reopenFor = 5 * time.Second

// reopen has the old side accept calls again after the last pass has failed or was interrupted.
// Otherwise both sides would refuse calls until the next run.
func (m *migrator) reopen(ctx context.Context) {
	if m.dies || errors.Is(context.Cause(ctx), ErrLockLost) {
		return // another mover may be running
	}

	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), reopenFor)
	defer stop()
	if m.change(ctx, 0, store.SideLeaving) == nil {
		m.Progress.Say(m.Names[0] + " accepts such calls again, because the migration is not finished")
	}
}

// moveRest moves the notices that have stayed until none is claimed or due soon, or Wait has passed.
func (m *migrator) moveRest(ctx context.Context) error {
	if err := m.dropDefinitions(ctx); err != nil {
		return err
	}

	for until := time.Now().Add(m.Wait); ; {
		got, err := m.pass(ctx, all)
		if err != nil {
			return err
		}

		if err := m.deaths(ctx); err != nil {
			return err
		}
		if err := m.causes(ctx); err != nil {
			return err
		}

		held := got.Held
		m.done.Claimed, m.done.Reported, m.done.Soon, m.done.Both = held.Claimed, held.Reported, held.Soon, held.Both
		if got.Moved == 0 && held.Claimed+held.Soon == 0 || time.Now().After(until) {
			return m.openWhole(ctx)
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(restEvery):
		}
	}
}

// openWhole has the new side accept all calls if all notices have arrived.
func (m *migrator) openWhole(ctx context.Context) error {
	if m.done.Claimed+m.done.Reported+m.done.Soon > 0 || m.sides[1].State != store.SideOpened {
		return nil
	}

	if err := m.forget(ctx, 1); err != nil { // the marks of notices that were finalized on the old side and are not kept
		return err
	}

	return m.set(ctx, 1, store.SideOpen)
}

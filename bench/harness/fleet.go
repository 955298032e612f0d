package harness

import (
	"context"
	"errors"
	"fmt"
	"os"

	"notifier/bench/peer"
)

// fleetSizes are the numbers of instances in successive phases of the fleet case. One instance is measured first and
// last, because the speed of the machine may change between them.
var fleetSizes = []int{1, 2, 4, 8, 1}

// fleetRate is the number of due jobs a second.
const fleetRate = 1000

// Member is a peer of which several work together and know of each other.
type Member interface {
	peer.Peer
	// Others waits until it knows n others.
	Others(ctx context.Context, n int) error
	// InVain is how many jobs it asked for and did not get.
	InVain() (int64, error)
}

func fleetColumns() []Column {
	var list []Column
	for _, c := range []struct{ value, title string }{{"trips", "Redis round trips/job"}, {"commands", "Redis commands/job"},
		{"cpu_servers", "Redis, CPU µs/job"}, {"p99_ms", "p99 ms"}} {
		for _, n := range []int{1, 2, 4, 8} {
			list = append(list, Column{fmt.Sprintf("%s_%d", c.value, n), fmt.Sprintf("%s, %d", c.title, n), true})
		}
	}

	return append(list, Column{"vain", "asked for in vain/job, 8", true})
}

func fleetCase(ctx context.Context, b *Bench) (Values, error) {
	if _, err := fill(ctx, b.Peer, b.Info, b.Size.Pending); err != nil {
		return nil, err
	}

	f := &fleet{b: b, phases: newPhases(int(fleetRate*b.Size.Window.Seconds()), len(fleetSizes))}
	defer func() { _ = f.shrink(0) }()
	measured := make([]Values, len(fleetSizes))
	for phase, n := range fleetSizes {
		if err := f.resize(ctx, n); err != nil {
			return nil, err
		}

		w, err := f.measure(ctx, phase)
		if err != nil {
			return nil, err
		}

		measured[phase] = w
	}

	return fleetValues(measured), nil
}

// idleFleetCase measures eight instances that have nothing to do.
func idleFleetCase(ctx context.Context, b *Bench) (Values, error) {
	if _, err := fill(ctx, b.Peer, b.Info, 1000); err != nil {
		return nil, err
	}

	f := &fleet{b: b, phases: newPhases(0, 1)}
	defer func() { _ = f.shrink(0) }()
	if err := f.resize(ctx, 8); err != nil {
		return nil, err
	}

	return idleFor(ctx, b)
}

// resize starts or stops instances until n run, and waits until each knows the others.
func (f *fleet) resize(ctx context.Context, n int) error {
	if err := errors.Join(f.grow(ctx, n), f.shrink(n)); err != nil {
		return err
	}

	for _, m := range f.members() {
		if err := m.Others(ctx, n-1); err != nil {
			return err
		}
	}

	return nil
}

// fleetValues combines the phases: sums of the counts, the mean of each figure by number of
// instances, and the ratios of eight instances to one.
func fleetValues(measured []Values) Values {
	v, figures := Values{}, map[string][]float64{}
	for phase, w := range measured {
		v.addCounts(w)

		for _, name := range fleetFigures {
			key := fmt.Sprintf("%s_%d", name, fleetSizes[phase])
			figures[key] = append(figures[key], w[name])
		}

		if fleetSizes[phase] == 8 {
			v["vain"] = w["vain"]
		}
	}

	for name, list := range figures {
		for _, x := range list {
			v[name] += x / float64(len(list))
		}
	}

	for _, name := range fleetFigures {
		v[name+"_ratio"] = v[name+"_8"] / v[name+"_1"]
	}

	return v
}

// fleetFigures are the figures that the fleet case compares between eight instances and one.
var fleetFigures = []string{"trips", "commands", "cpu_servers", "p99_ms"}

// fleet are the instances of a fleet case.
type fleet struct {
	b      *Bench
	phases *phases
	others []Member // beside the peer that the case began with
	works  bool     // that one
}

func (f *fleet) members() []Member {
	var list []Member
	if m, ok := f.b.Peer.(Member); ok {
		list = append(list, m)
	}

	return append(list, f.others...)
}

func (f *fleet) grow(ctx context.Context, n int) error {
	if !f.works {
		f.works = true
		if err := f.b.Peer.Work(ctx, f.b.Env.Handlers, f.phases.handle); err != nil {
			return err
		}
	}

	for len(f.others)+1 < n {
		dir, err := os.MkdirTemp(f.b.Env.Dir, "instance")
		if err != nil {
			return fmt.Errorf("make a scratch directory: %w", err)
		}

		p := f.b.New()
		m, ok := p.(Member)
		if !ok {
			return fmt.Errorf("%s is no member of a fleet", f.b.Info.Name)
		}

		f.others = append(f.others, m)
		env := f.b.Env
		env.Dir, env.Attach = dir, f.b.Peer.Addr()
		if err := p.Start(ctx, env); err != nil {
			return fmt.Errorf("start an instance: %w", err)
		}
		if err := p.Work(ctx, env.Handlers, f.phases.handle); err != nil {
			return err
		}
	}

	return nil
}

func (f *fleet) shrink(n int) error {
	var errs []error
	for keep := max(n-1, 0); len(f.others) > keep; {
		last := len(f.others) - 1
		errs = append(errs, f.others[last].Stop())
		f.others = f.others[:last]
	}

	return errors.Join(errs...)
}

// measure lets the jobs of phase n fall due.
func (f *fleet) measure(ctx context.Context, n int) (Values, error) {
	before, err := f.inVain()
	if err != nil {
		return nil, err
	}

	v, err := f.phases.measure(ctx, f.b, n, f.phases.per, 10*slowest)
	if err != nil {
		return nil, err
	}

	after, err := f.inVain()
	v["vain"] = float64(after-before) / float64(f.phases.per)
	return v, err
}

func (f *fleet) inVain() (sum int64, err error) {
	for _, m := range f.members() {
		n, err := m.InVain()
		if err != nil {
			return 0, err
		}

		sum += n
	}
	return sum, nil
}

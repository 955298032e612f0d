package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

// mutated is the line of internal/engine/handlers.go that TestMutantThatDuplicatesFailsRun changes.
const mutated = "\treturn h.Handler.Handle(ctx, r, n)\n"

func TestMutantHasItsLine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "engine", "handlers.go"))
	if err != nil || strings.Count(string(text), mutated) != 1 {
		t.Errorf("want one line %q, %v", mutated, err)
	}
}

// A duplicate is explained by a fault that may duplicate, hit the instance of the first
// attempt, and did so while that attempt was in flight. Any other fault explains nothing.
func TestLedgerExplainsDuplicatesByTheirFault(t *testing.T) {
	from := time.Now().Add(-time.Hour)
	at := func(s float64) time.Time { return from.Add(time.Duration(s * float64(time.Second))) }
	for name, c := range map[string]struct {
		fault *span
		want  string // the cause; empty = unexplained
	}{
		"no fault":                   {nil, ""},
		"one that may not duplicate": {&span{what: "connections killed", from: at(9), to: at(12), strikes: []strike{{at(10.5), ""}}}, ""},
		"the instance, in flight": {&span{what: "instance killed", duplicates: true, from: at(10), to: at(12),
			strikes: []strike{{at(10.5), "n0"}}}, "instance killed"},
		"the instance, unsettled": {&span{what: "instance killed", duplicates: true, from: at(10), to: at(12),
			strikes: []strike{{at(11.2), "n0"}}}, "instance killed"},
		"the instance, settled": {&span{what: "instance killed", duplicates: true, from: at(10), to: at(14), strikes: []strike{{at(12), "n0"}}},
			""},
		"another instance": {&span{what: "instance killed", duplicates: true, from: at(10), to: at(12), strikes: []strike{{at(10.5), "n1"}}},
			""},
		"all instances": {&span{what: "redis killed", duplicates: true, from: at(10), to: at(12), strikes: []strike{{at(10.5), ""}}},
			"redis killed"},
		"while it lasts": {&span{what: "redis stopped", duplicates: true, from: at(8), to: at(12), strikes: []strike{{at(9), ""}}},
			"redis stopped"},
		"after its end": {&span{what: "redis stopped", duplicates: true, from: at(8), to: at(9.5), strikes: []strike{{at(8.5), ""}}}, ""},
		"still felt": {&span{what: "failover", duplicates: true, felt: time.Second, from: at(8), to: at(9.5),
			strikes: []strike{{at(8.5), ""}}}, "failover"},
		"before it strikes": {&span{what: "clock", duplicates: true, from: at(9), to: at(20), strikes: []strike{{at(15), ""}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.promises["k"] = &promise{id: "msg", due: at(9), acked: at(8)}
			l.arrivals["k"] = []*arrival{
				{id: "msg", instance: "n0", attempt: 1, due: at(9), at: at(10), done: at(11), clock: at(10), ok: true},
				{id: "msg", instance: "n2", attempt: 1, due: at(9), at: at(18), done: at(18.1), clock: at(18), ok: true},
			}
			if c.fault != nil {
				l.faults = []*span{c.fault}
			}
			v := l.judge()
			if len(v.Duplicates) != 1 || len(v.Unexplained) == 1 != (c.want == "") || v.ok() != (c.want != "") {
				t.Errorf("duplicates %v, unexplained %v, ok %t", v.Duplicates, v.Unexplained, v.ok())
			}
			if c.want != "" && (v.Faults[c.want].caused != 1 || !strings.HasSuffix(v.Duplicates[0].String(), c.want)) {
				t.Errorf("%v of %+v", v.Duplicates, v.Faults[c.want])
			}
		})
	}
}

func TestLedgerCountsCallsInFlightAtStrikes(t *testing.T) {
	from := time.Now().Add(-time.Hour)
	at := func(s float64) time.Time { return from.Add(time.Duration(s * float64(time.Second))) }
	l := newLedger()
	for key, a := range map[string]*arrival{
		"ended":   {instance: "n0", at: at(0), done: at(9)},
		"before":  {instance: "n0", at: at(9), done: at(9.8)},
		"during":  {instance: "n1", at: at(9.9), done: at(11)},
		"another": {instance: "n1", at: at(9), done: at(12)},
		"later":   {instance: "n1", at: at(10.1), done: at(12)},
	} {
		l.arrivals[key] = []*arrival{a}
	}
	l.faults = []*span{
		{what: "all", strikes: []strike{{at(10), ""}}},
		{what: "one", strikes: []strike{{at(10), "n0"}}},
		{what: "one", strikes: []strike{{at(10), "n1"}}},
		{what: "none"},
	}
	got := l.effects()
	for what, want := range map[string]string{"all": "n0 1, n1 2", "one": "n0 1, n1 2", "none": ""} {
		if s := counts(got[what].inFlight); s != want {
			t.Errorf("%s: %q in flight, want %q", what, s, want)
		}
	}
	if got["one"].times != 2 {
		t.Errorf("%d times", got["one"].times)
	}
}

// An attempt that starts while an earlier notice of its sequence is pending or another one is in flight is an
// overtake, unless a fault explains it.
func TestLedgerFindsOvertakes(t *testing.T) {
	from := time.Now().Add(-time.Hour)
	at := func(s float64) time.Time { return from.Add(time.Duration(s * float64(time.Second))) }
	delivered := &arrival{instance: "n0", attempt: 1, at: at(10), done: at(11), ok: true}
	for name, c := range map[string]struct {
		first, second []*arrival // of the sequence's two notices
		acked         float64    // the first notice
		fault         *span
		want          string // how the overtake is reported; empty = there is none
	}{
		"in order":  {first: []*arrival{delivered}, second: []*arrival{{at: at(11), done: at(12), ok: true}}},
		"before it": {second: []*arrival{{at: at(9), done: at(9.5), ok: true}}, first: []*arrival{delivered}, want: "was pending"},
		"between two": {first: []*arrival{{at: at(8), done: at(8.5)}, delivered}, second: []*arrival{{at: at(9), done: at(9.5)}},
			want: "was pending"},
		"while it lasts": {first: []*arrival{delivered}, second: []*arrival{{at: at(10.5), done: at(12), ok: true}}, want: "was pending"},
		"unknown yet":    {acked: 9.2, first: []*arrival{delivered}, second: []*arrival{{at: at(9), done: at(9.5), ok: true}}},
		"a repetition of the first, during the second": {first: []*arrival{delivered, {at: at(12.5), done: at(13), ok: true}},
			second: []*arrival{{at: at(12), done: at(14), ok: true}}, want: "was in flight"},
		"a repetition that a fault explains": {first: []*arrival{delivered, {instance: "n0", at: at(12.5), done: at(13), ok: true}},
			second: []*arrival{{instance: "n1", at: at(12), done: at(14), ok: true}}, want: "was in flight: instance stopped",
			fault: &span{what: "instance stopped", duplicates: true, from: at(9), to: at(20), strikes: []strike{{at(10), "n0"}}}},
		"a fault that overtakes": {first: []*arrival{delivered}, second: []*arrival{{at: at(9), done: at(9.5), ok: true}},
			want: "was pending: reshard", fault: &span{what: "reshard", overtakes: true, from: at(8), to: at(9.5)}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.promises["pay:a:t0:7"] = &promise{due: at(8), acked: at(c.acked)}
			l.promises["pay:a:t1:7"] = &promise{due: at(8), acked: at(8)}
			l.promises["pay:a:safety:7"] = &promise{due: at(8), acked: at(8)} // has no sequence
			l.arrivals["pay:a:t0:7"], l.arrivals["pay:a:t1:7"], l.arrivals["pay:a:safety:7"] = c.first, c.second, c.second
			if c.fault != nil {
				l.faults = []*span{c.fault}
			}
			got := l.overtakes()
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0].String(), c.want)) {
				t.Errorf("%v, want %q", got, c.want)
			}
		})
	}
}

// An attempt after the expiry is found unless a fault may have delayed it, by the clock that was furthest behind; and so is a letter that
// died of an expiry that it does not have, or before it.
func TestLedgerFindsAttemptsAfterTheExpiry(t *testing.T) {
	from := time.Now().Add(-time.Hour)
	at := func(s float64) time.Time { return from.Add(time.Duration(s * float64(time.Second))) }
	for name, c := range map[string]struct {
		arrives float64
		clock   []setting
		fault   *span
		found   bool
	}{
		"in time":             {arrives: 10.5},
		"late":                {arrives: 12, found: true},
		"a fault before":      {arrives: 12, fault: &span{from: at(9), to: at(11.5)}},
		"a fault long before": {arrives: 20, fault: &span{from: at(9), to: at(11.5)}, found: true},
		"the clock went back": {arrives: 12, clock: []setting{{}, {from: at(11), offset: -time.Hour}}},
		"the clock was back":  {arrives: 12, clock: []setting{{offset: -time.Hour}, {from: at(0)}}, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.promises["pay:a"] = &promise{due: at(8), expires: at(10), acked: at(7)}
			l.arrivals["pay:a"] = []*arrival{{attempt: 1, due: at(8), at: at(c.arrives), done: at(c.arrives), clock: at(c.arrives), ok: true}}
			if c.clock != nil {
				l.clock = c.clock
			}
			if c.fault != nil {
				l.faults = []*span{c.fault}
			}
			if got := l.judge(); (len(got.Expired) == 1) != c.found || got.ok() == c.found {
				t.Errorf("%q", got.Expired)
			}
		})
	}
	l := newLedger()
	l.died("pay:a", &client.Notice{Reason: "expired"})
	l.died("pay:b", &client.Notice{Reason: "expired", Expires: at(10), SettledAt: at(9)})
	l.died("pay:c", &client.Notice{Reason: "expired", Expires: at(10), SettledAt: at(10)})
	l.died("pay:d", &client.Notice{Reason: "exhausted"})
	l.clock = []setting{{offset: time.Hour}, {from: at(8), offset: 0}}
	l.died("pay:e", &client.Notice{Reason: "expired", Expires: at(3600), SettledAt: at(8.1)}) // claimed before the clock went back
	if got := l.judge(); len(got.Wrong) != 2 || got.Dead != 5 {
		t.Errorf("%q", got.Wrong)
	}
}

package receivers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

const prefix = "shop:paid"

func newStore(t *testing.T) (*HealthStore, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return &HealthStore{Wire: wire.New(wire.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace()}})}, srv
}

// instance is a Tracker with the times of its attempts in seconds after base.
type instance struct {
	t *testing.T
	s *HealthStore
	*Tracker
	base time.Time
}

func (i *instance) at(second int) time.Time { return i.base.Add(time.Duration(second) * time.Second) }

func (i *instance) fails(receiver string, seconds ...int) {
	for _, x := range seconds {
		i.Observe(prefix, receiver, Attempt{At: i.at(x), Failed: true, Status: 500, Reason: "status_5xx"})
	}
}

func (i *instance) answers(receiver string, seconds ...int) {
	for _, x := range seconds {
		i.Observe(prefix, receiver, Attempt{At: i.at(x), Status: 200})
	}
}

func (i *instance) write() {
	i.t.Helper()
	if err := i.s.Write(i.t.Context(), i.Tracker); err != nil {
		i.t.Fatal(err)
	}
}

func (i *instance) read() RouteHealth {
	i.t.Helper()
	list, err := i.s.Read(i.t.Context(), []string{prefix})
	if err != nil {
		i.t.Fatal(err)
	}
	return list[0]
}

func (i *instance) receiver(name string) Health {
	i.t.Helper()
	for _, r := range i.read().Receivers {
		if r.Name == name {
			return r
		}
	}
	return Health{}
}

func instances(t *testing.T) (a, b *instance) {
	t.Helper()
	s, _ := newStore(t)
	base := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	return &instance{t, s, NewTracker(), base}, &instance{t, s, NewTracker(), base}
}

func TestFailingReceiverIsStored(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	a.answers("shop.example:443", 1)
	a.fails("shop.example:443", 10, 20, 30)
	a.answers("well.example:443", 5)
	a.write()
	want := Health{Name: "shop.example:443", Since: a.at(10), LastSuccess: a.at(1), Failures: 3, LastAttempt: a.at(30), Status: 500,
		Reason: "status_5xx"}
	if got := a.receiver("shop.example:443"); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n := len(a.read().Receivers); n != 1 {
		t.Errorf("%d receivers are stored: one that never failed is none of them", n)
	}
	if a.Changed() {
		t.Error("written changes are still pending")
	}
	a.fails("shop.example:443", 40)
	a.write()
	if got := a.receiver("shop.example:443"); got.Failures != 4 || !got.Since.Equal(a.at(10)) {
		t.Errorf("after another failure: %+v", got)
	}
}

// Two instances call one receiver; the order of their writes does not matter.
func TestMergeTakesLatestSuccessAndFirstFailureAfterIt(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(a, b *instance){
		"a success ends it": func(a, b *instance) {
			a.fails("x:80", 10, 20)
			a.write()
			b.fails("x:80", 15)
			b.answers("x:80", 30)
			b.write()
		},
		"a failure is later than the success of the other": func(a, b *instance) {
			b.fails("x:80", 5)
			b.answers("x:80", 30)
			b.write()
			a.fails("x:80", 10, 20, 40)
			a.write()
		},
		"the same, written the other way round": func(a, b *instance) {
			a.fails("x:80", 10, 20, 40)
			a.write()
			b.fails("x:80", 5)
			b.answers("x:80", 30)
			b.write()
		},
		"both fail": func(a, b *instance) {
			a.fails("x:80", 20, 30)
			b.fails("x:80", 10, 40)
			a.write()
			b.write()
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := instances(t)
			do(a, b)
			got := a.receiver("x:80")
			switch name {
			case "a success ends it":
				if got.Failing() || got.Failures != 0 || !got.LastSuccess.Equal(a.at(30)) || got.Status != 200 {
					t.Errorf("%+v", got)
				}
			case "both fail":
				if !got.Since.Equal(a.at(10)) || got.Failures != 4 || !got.LastAttempt.Equal(a.at(40)) {
					t.Errorf("%+v", got)
				}
			default:
				if !got.Since.Equal(a.at(40)) || got.Failures != 1 || !got.LastSuccess.Equal(a.at(30)) {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

// An instance writes the success of a receiver that failed at another instance only.
func TestSuccessElsewhereEndsFailing(t *testing.T) {
	t.Parallel()
	a, b := instances(t)
	a.fails("x:80", 10)
	a.write()
	b.answers("x:80", 20)
	b.write()
	if !a.receiver("x:80").Failing() {
		t.Fatal("it was written without a Sync")
	}
	if err := b.s.Sync(t.Context(), b.Tracker); err != nil {
		t.Fatal(err)
	}
	b.write()
	if got := a.receiver("x:80"); got.Failing() || !got.LastSuccess.Equal(a.at(20)) {
		t.Errorf("%+v", got)
	}
}

func TestWriteThatFailsIsMadeAgain(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	a.fails("x:80", 10, 20)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if a.s.Write(over, a.Tracker) == nil {
		t.Fatal("no error")
	}
	a.fails("x:80", 30)
	a.write()
	if got := a.receiver("x:80"); got.Failures != 3 || !got.Since.Equal(a.at(10)) {
		t.Errorf("%+v", got)
	}
}

// A write has each receiver that began or ceased to fail, and 64 of those that go on failing.
func TestWriteHasWhatChangedFirst(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	const hosts = 200
	host := func(i int) string { return fmt.Sprintf("h%d:443", i) }
	for i := range hosts {
		a.fails(host(i), 10)
	}
	a.write()
	if n := len(a.read().Receivers); n != hosts {
		t.Errorf("%d of %d receivers that began to fail are stored after one write", n, hosts)
	}

	for i := range hosts {
		a.fails(host(i), 20)
	}
	a.answers(host(150), 30)
	a.write()
	still := 0
	for _, r := range a.read().Receivers {
		if r.Name == host(150) && r.Failing() {
			t.Error("a receiver that recovered is not written before those that go on failing")
		}
		if r.LastAttempt.Equal(a.at(20)) {
			still++
		}
	}
	if still != mostOther {
		t.Errorf("%d receivers that go on failing are in one write, want %d", still, mostOther)
	}
}

// Receivers that go on failing take turns.
func TestWriteHasLongestUnwrittenReceivers(t *testing.T) {
	t.Parallel()
	tr := NewTracker()
	i, now := &instance{t, nil, tr, time.Now()}, time.Now()
	round := func(second int) (names []string) {
		for n := range 2 * mostOther {
			i.fails(fmt.Sprintf("h%d:443", n), second)
		}
		list := tr.take(mostTurned, mostOther)
		tr.wrote(prefix, list, nil, now.Add(time.Duration(second)*time.Second))
		for _, c := range list {
			names = append(names, c.receiver)
		}
		return names
	}
	round(1)
	first, second := round(2), round(3)
	if len(first) != mostOther || len(second) != mostOther ||
		slices.ContainsFunc(second, func(name string) bool { return slices.Contains(first, name) }) {
		t.Errorf("%d receivers are written, then %d, and some of them twice", len(first), len(second))
	}
}

// Of more receivers than one write has, those that changed last are written first.
func TestWriteHasLatestChangeFirst(t *testing.T) {
	t.Parallel()
	tr := NewTracker()
	i := &instance{t, nil, tr, time.Now()}
	for n := range mostTurned {
		i.fails(fmt.Sprintf("h%d:443", n), 10)
	}
	i.answers("h7:443", 20)
	i.fails("last:443", 30)
	list := tr.take(mostTurned, mostOther)
	if len(list) != mostTurned || list[0].receiver != "last:443" || list[1].receiver != "h7:443" {
		t.Errorf("%d changes, first %s and %s", len(list), list[0].receiver, list[1].receiver)
	}
	if !tr.Changed() {
		t.Error("the change that found no place is not kept")
	}
}

// At stop nothing is left, whichever route it is of.
func TestWriteAllLeavesNothing(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	for i := range 400 {
		a.fails(fmt.Sprintf("h%d:443", i), 10)
		a.Observe("shop:sent", fmt.Sprintf("h%d:443", i), Attempt{At: a.at(10), Failed: true})
	}
	a.write()
	for i := range 400 {
		a.answers(fmt.Sprintf("h%d:443", i), 20)
		a.Observe("shop:sent", fmt.Sprintf("h%d:443", i), Attempt{At: a.at(20), Status: 200})
		a.fails(fmt.Sprintf("other%d:443", i), 20)
	}
	if err := a.s.WriteAll(t.Context(), a.Tracker); err != nil {
		t.Fatal(err)
	}
	list, err := a.s.Read(t.Context(), []string{prefix, "shop:sent"})
	if err != nil {
		t.Fatal(err)
	}
	if a.Changed() || list[0].Failing(time.Now()) != 400 || len(list[0].Receivers) != 800 || list[1].Failing(time.Now()) != 0 {
		t.Errorf("%d of %d receivers fail, and of the other route %d", list[0].Failing(time.Now()), len(list[0].Receivers),
			list[1].Failing(time.Now()))
	}
}

// An instance recorded a failure and was killed. The next success that another one sees is written after a Sync, also if
// that instance has just written another success of the receiver.
func TestSuccessEndsFailingOfKilledInstance(t *testing.T) {
	t.Parallel()
	a, b := instances(t)
	b.fails("x:80", 1)
	b.answers("x:80", 2)
	b.write()
	a.fails("x:80", 10)
	a.write()
	b.answers("x:80", 20)
	if err := b.s.Sync(t.Context(), b.Tracker); err != nil {
		t.Fatal(err)
	}
	b.write()
	if got := b.receiver("x:80"); got.Failing() {
		t.Errorf("%+v", got)
	}
}

// Two thousand receivers of one route begin to fail at once: two writes store all of them.
func TestTwoThousandFailingReceiversAreKnown(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	const hosts = 2000
	for i := range hosts {
		a.fails(fmt.Sprintf("shop%d.example:443", i), 10)
	}
	a.write()
	a.write()
	if r := a.read(); len(r.Receivers) != hosts || r.Failing(time.Now()) != hosts || r.Others != 0 || r.Dropped != 0 {
		t.Errorf("%d receivers, of which %d fail, %d others, %d dropped", len(r.Receivers), r.Failing(time.Now()), r.Others, r.Dropped)
	}
}

// The bound of package receivers: both hashes of a full route, each receiver with attempts in 25 hours and ten answers.
func TestFullHashTakesBoundedMemory(t *testing.T) {
	t.Parallel()
	const some = mostReceivers / 10
	a, _ := instances(t)
	for hour := range 25 {
		for i := range some {
			for n := range mostAnswers {
				at := a.at(3600*(hour-24) + n)
				a.Observe(prefix, fmt.Sprintf("callback-%d.shop.example:443", i), Attempt{At: at, Failed: true, Reason: "connect_refused",
					Took: 12 * time.Second})
			}
		}
		for a.Changed() {
			if err := a.s.WriteAll(t.Context(), a.Tracker); err != nil {
				t.Fatal(err)
			}
		}
	}
	sum := int64(0)
	for _, key := range []string{a.s.Wire.Space.Health(prefix), a.s.Wire.Space.HealthDay(prefix)} {
		sum += a.s.Wire.Redis.MemoryUsage(t.Context(), key, 0).Val()
	}
	t.Logf("%d bytes of %d receivers", sum, some)
	if sum < some*800 || sum*mostReceivers/some > 4<<20 {
		t.Errorf("%d receivers take %d bytes; a full route may take 4 MiB", some, sum)
	}
}

func TestHashIsBounded(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	hour := func() time.Time { return a.s.Wire.Clock.Now().Truncate(time.Hour) }
	began := hour()
	a.fails("healthy:443", 1)
	a.answers("healthy:443", 2)
	a.fails("later:443", 1)
	a.answers("later:443", 3)
	a.write()
	for i := range mostReceivers - 1 {
		a.fails(fmt.Sprintf("h%d:443", i), 10)
	}
	for a.Changed() {
		a.write()
	}
	if a.receiver("healthy:443").Name != "" || a.receiver("later:443").Name == "" {
		t.Error("the oldest success is not dropped first")
	}

	for i := range mostReceivers + 5 {
		a.fails(fmt.Sprintf("h%d:443", i), 10)
	}
	for a.Changed() {
		a.write()
	}
	r := a.read()
	counted := r.Others == 5 && r.Dropped == 2 || !hour().Equal(began) && r.Others <= 5 && r.Dropped <= 2 // they are of the present clock hour
	if len(r.Receivers) != mostReceivers || !counted || a.receiver("healthy:443").Name != "" {
		t.Errorf("%d receivers, %d others, %d dropped, and %+v", len(r.Receivers), r.Others, r.Dropped, a.receiver("healthy:443"))
	}
	stored := map[string]bool{}
	for _, x := range r.Receivers {
		stored[x.Name] = true
	}
	for i := range mostReceivers + 5 {
		if name := fmt.Sprintf("h%d:443", i); !stored[name] {
			a.fails(name, 20)
		}
	}
	if a.Changed() {
		t.Error("a receiver that found no place is written again at once")
	}
}

func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	a.base = a.base.Add(-Kept)
	a.fails("old:443", 0)
	a.write()
	if r := a.read(); len(r.Receivers) != 0 {
		t.Errorf("%+v", r)
	}
	if ttl := a.s.Wire.Redis.PTTL(t.Context(), a.s.Wire.Space.Health(prefix)).Val(); ttl <= Kept-time.Minute || ttl > Kept {
		t.Errorf("the hash expires in %s", ttl)
	}
}

func TestCopyKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	far, _ := instances(t)
	a.fails("x:80", 10)
	a.fails("y:80", 10)
	a.write()
	far.base = a.base
	far.fails("x:80", 5)
	far.write()
	if err := a.s.Copy(t.Context(), far.s, []string{prefix, "other"}); err != nil {
		t.Fatal(err)
	}
	if x, y := far.receiver("x:80"), far.receiver("y:80"); !x.Since.Equal(a.at(5)) || !y.Since.Equal(a.at(10)) {
		t.Errorf("%+v, %+v", x, y)
	}
}

// pages are pages of pending notices.
type pages [][]Waiter

func (p pages) Pending(_ context.Context, _, cursor string) ([]Waiter, int, string, error) {
	i := len(cursor)
	next := cursor + "x"
	if i+1 == len(p) {
		next = ""
	}
	return p[i], len(p[i]), next, nil
}

func TestScanCountsWhatWaitsForFailingReceivers(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	a.fails("x:80", 10)
	a.write()
	soon := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	s := &Scanner{Store: a.s, Notices: pages{
		{{"x:80", soon.Add(time.Hour), true}, {"x:80", soon, false}, {"y:80", soon, true}},
		{{"x:80", soon, true}, {"x:80", a.at(1), false}},
	}}
	if err := s.Scan(t.Context(), []RouteHealth{a.read()}); err != nil {
		t.Fatal(err)
	}
	r := a.read()
	if got := r.Receivers[0]; got.Waiting != 3 || !got.Next.Equal(a.at(1)) || time.Since(r.Counted) > time.Minute {
		t.Errorf("%+v, counted %s: want the two that failed and the one that is due", got, r.Counted)
	}
}

// many is one page of n records that wait for no receiver.
type many int

func (n many) Pending(context.Context, string, string) ([]Waiter, int, string, error) {
	return nil, int(n), "", nil
}

// The limit of records a second holds for all routes together, also if each route has one page only.
func TestScanReadsAtMost2000RecordsASecond(t *testing.T) {
	t.Parallel()
	a, _ := instances(t)
	a.fails("x:80", 10)
	a.write()
	const records, routes = 200, 3
	list := make([]RouteHealth, routes)
	for i := range list {
		list[i] = a.read()
		list[i].Prefix = fmt.Sprintf("shop:paid%d", i)
	}
	began := time.Now()
	if err := (&Scanner{Store: a.s, Notices: many(records)}).Scan(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if took, least := time.Since(began), routes*records*time.Second/scanRate; took < least {
		t.Errorf("%d records were read within %s, want at least %s", routes*records, took, least)
	}
}

// A receiver that failed has its attempts by hour and its last answers, of all instances.
func TestDayHasHoursAndLastAnswers(t *testing.T) {
	t.Parallel()
	a, b := instances(t)
	base := time.Now().UTC().Truncate(time.Hour)
	observe := func(i *instance, at time.Time, status int) {
		x := Attempt{At: at, Status: status, Took: 20 * time.Millisecond}
		if status != 200 {
			x.Failed, x.Reason = true, "status_5xx"
		}
		i.Observe(prefix, "x:80", x)
	}
	day := func() Day {
		t.Helper()
		d, err := a.s.Day(t.Context(), prefix, "x:80")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}

	a.Observe(prefix, "y:80", Attempt{At: base, Status: 200})
	a.write()
	if d, err := a.s.Day(t.Context(), prefix, "y:80"); err != nil || len(d.Hours) != 0 {
		t.Errorf("of a receiver that never failed: %+v, %v", d, err)
	}
	for i := range 12 {
		observe(a, base.Add(-2*time.Hour+time.Duration(i)*time.Second), 500)
	}
	a.write()
	observe(a, base.Add(-30*time.Hour), 500)
	a.write()
	observe(b, base.Add(-time.Hour), 500)
	b.write()
	observe(a, base.Add(-time.Hour), 200)
	a.write()

	d := day()
	if len(d.Hours) != 2 || d.Hours[0] != (Hour{base.Add(-2 * time.Hour), 12, 12, 20 * time.Millisecond}) ||
		d.Hours[1] != (Hour{base.Add(-time.Hour), 2, 1, 20 * time.Millisecond}) {
		t.Errorf("hours %+v", d.Hours)
	}
	if len(d.Answers) != mostAnswers || d.Answers[0].At.Before(d.Answers[1].At) {
		t.Errorf("answers %+v", d.Answers)
	}
	if x := d.Answers[0]; !x.At.Equal(base.Add(-time.Hour)) || x.Took != 20*time.Millisecond {
		t.Errorf("the last answer is %+v", x)
	}
	if d := readDay("x|1 2,,:|", time.Now()); len(d.Hours)+len(d.Answers) != 0 {
		t.Errorf("of a damaged entry: %+v", d)
	}
}

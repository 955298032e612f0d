package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
)

// teamFleet is a hookFleet whose hook sends messages, with a clock that a test can put forward.
type teamFleet struct {
	*hookFleet
	deaths [2]*fakeDeaths
	ahead  time.Duration
}

func newTeamFleet(t *testing.T) *teamFleet {
	t.Helper()
	f := &teamFleet{hookFleet: newHookFleet(t)}
	hook := &route.Route{Name: "alarms", Prefix: "ops", Robot: route.NewRobot(route.Slack, nil, "")}
	table, err := route.NewTable([]*route.Route{{Name: "orders", Prefix: "app1", OnDead: hook, OnDown: time.Minute}, hook})
	if err != nil {
		t.Fatal(err)
	}
	outbox := &fakeDeaths{shards: [][]string{nil, nil}}
	for i, h := range f.all {
		f.deaths[i] = outbox
		h.o.Store, h.o.Causes, h.o.Routes, h.hook = outbox, f, table, "ops"
		h.o.Link = func(name string, receivers bool) string {
			return fmt.Sprintf("https://n.example/%s/%t", name, receivers)
		}
		h.o.Space = keys.Space{Namespace: h.o.Space.Namespace, Shards: 2}
	}
	return f
}

func (f *teamFleet) Causes(ctx context.Context, hook string) (map[string]string, time.Time, error) {
	list, now, err := f.s.Causes(ctx, hook)
	return list, now.Add(f.ahead), err
}

func (f *teamFleet) SetCause(ctx context.Context, hook, name, old, text string) (bool, error) {
	if err := f.step(); err != nil {
		return false, err
	}
	return f.s.SetCause(ctx, hook, name, old, text)
}

// die adds a death to the outbox of a shard.
func (f *teamFleet) die(shard int, key string, reason notice.Reason) {
	at := time.Now().Add(f.ahead)
	f.deaths[0].shards[shard] = append(f.deaths[0].shards[shard], fmt.Sprintf(`%d %s-1 ops {"key":%q,"route":"orders","reason":%q,`+
		`"host":"shop.example","last_attempt":{"status":500,"response":"<!here>"}}`, at.UnixMicro(), key, "app1:orders:paid:"+key, reason))
}

// texts returns the messages so far.
func (f *teamFleet) texts() (list []string) {
	for _, key := range f.told {
		var v struct{ Text string }
		if err := json.Unmarshal([]byte(f.bodies[key]), &v); err != nil {
			f.t.Fatal(err)
		}
		list = append(list, v.Text)
	}
	return list
}

func (f *teamFleet) passes() {
	f.pass(0)
	f.pass(1)
}

func (f *teamFleet) want(begins ...string) {
	f.t.Helper()
	got := f.texts()
	if len(got) != len(begins) {
		f.t.Fatalf("messages %q, want %d", got, len(begins))
	}
	for i, text := range begins {
		if !strings.HasPrefix(got[i], "notifier: "+text) {
			f.t.Errorf("message %q, want it to begin with %q", got[i], text)
		}
	}
}

const fivexx = "dead letters of route orders, reason status_5xx: 37\n"

func TestTeamGetsOneMessageForEachReason(t *testing.T) {
	f := newTeamFleet(t)
	for i := range 250 {
		f.die(i%2, fmt.Sprint(i), notice.ReasonStatus5xx)
	}
	f.die(0, "g", notice.ReasonGone)
	f.passes()
	f.want() // more may follow
	if n := len(f.deaths[0].shards[0]) + len(f.deaths[0].shards[1]); n > 0 {
		t.Errorf("%d entries are left in the outbox", n)
	}
	f.ahead = collectFor + time.Second
	f.passes()
	f.passes()
	got := f.texts()
	slices.Sort(got)
	f.told = f.told[:0]
	if len(got) != 2 || !strings.HasPrefix(got[1], "notifier: "+fivexx) || !strings.Contains(got[0], "reason gone: 1\n") ||
		!strings.Contains(got[1], "First example: app1:orders:paid:0\nReceiver: shop.example\nStatus: 500\nAnswer: &lt;!here&gt;\n"+
			"<https://n.example/orders/false|") {
		t.Fatalf("%q", got)
	}

	f.ahead += time.Minute
	f.die(1, "later", notice.ReasonStatus5xx)
	f.passes()
	f.want()
	f.ahead += messageEvery
	f.passes()
	if got = f.texts(); len(got) != 2 { // another death, and the reason gone is over
		t.Fatalf("%q", got)
	}
	f.told = f.told[:0]
	f.ahead += messageEvery
	f.passes()
	f.want("recovered: no new dead letters of route orders, reason status_5xx\n")
	if list, _, err := f.s.Causes(t.Context(), "ops"); err != nil || len(list) > 0 {
		t.Errorf("causes %q, %v, want none", list, err)
	}
}

// Dead letters that were redriven or purged before the first message are not reported. While some of them may be in another place, the
// message waits.
func TestTeamIsNotToldOfNoDeadLetters(t *testing.T) {
	f := newTeamFleet(t)
	outbox := f.deaths[0]
	f.die(0, "1", notice.ReasonStatus5xx)
	f.passes()
	outbox.none, f.ahead = &store.DeadCount{}, collectFor+time.Second
	f.passes()
	f.want()
	outbox.none = nil
	f.passes()
	f.want(fivexx)

	f.die(1, "2", notice.ReasonGone)
	f.passes()
	outbox.none, f.ahead = &store.DeadCount{Complete: true}, 2*collectFor+2*time.Second
	f.passes()
	f.want(fivexx)
	list, _, err := f.s.Causes(t.Context(), "ops")
	if _, ok := list["orders gone"]; err != nil || ok || len(list) != 1 {
		t.Errorf("causes %q, %v", list, err)
	}
}

// An instance is killed before each of its steps, and the other one goes on: no message twice, none lost.
func TestMessagesSurviveKills(t *testing.T) {
	for kill := range 6 {
		f := newTeamFleet(t)
		f.steps = kill
		try := func() {
			if err := f.all[0].pass(t.Context(), true); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		f.die(0, "1", notice.ReasonStatus5xx)
		try()
		f.ahead = collectFor + time.Second
		try()
		f.ahead += messageEvery + time.Second
		try()
		f.steps = -1
		f.pass(1)
		f.ahead += collectFor + time.Second
		f.pass(1)
		f.ahead += messageEvery + time.Second
		f.pass(1)
		f.want(fivexx, "recovered")
	}
}

func TestTeamLearnsOnceOfFailingReceivers(t *testing.T) {
	f := newTeamFleet(t)
	since := time.Now().Add(-time.Hour)
	f.observe(since, true)
	f.passes()
	f.want()
	f.ahead = collectFor + time.Second
	f.passes()
	f.ahead += time.Hour
	f.passes()
	f.want("failing receivers of route orders: 1\nSince: ")
	f.observe(since.Add(time.Minute), false)
	f.passes()
	f.passes()
	f.want("failing receivers of route orders: 1\nSince: ", "recovered: the receivers of route orders answer again\n")
}

func TestShortOutageIsNoMessage(t *testing.T) {
	f := newTeamFleet(t)
	since := time.Now().Add(-time.Hour)
	f.observe(since, true)
	f.passes()
	f.observe(since.Add(time.Minute), false)
	f.passes()
	f.ahead = time.Hour
	f.passes()
	f.want()
}

// Facts of an entry that cannot be read stay, and hold up no other.
func TestUnreadableDeathHoldsUpNoMessage(t *testing.T) {
	f := newTeamFleet(t)
	f.deaths[0].shards[0] = []string{"5 a-1 ops {}"}
	f.die(0, "1", notice.ReasonGone)
	if err := f.all[0].pass(t.Context(), true); err == nil {
		t.Error("no error")
	}
	if left := f.deaths[0].shards[0]; len(left) != 1 {
		t.Errorf("%q are left", left)
	}
}

// ruled is a fake of the pauses by rules.
type ruled struct{ list []*receivers.Pause }

func (p *ruled) RuledBy(context.Context, *route.Table, *route.Route) ([]*receivers.Pause, error) {
	return slices.Clone(p.list), nil
}

func (p *ruled) Tell(_ context.Context, x *receivers.Pause) error {
	x.Told = !x.Resumed
	return nil
}

// The team gets one message of the receivers that rules pause, another one when there are more, and one when the last is resumed.
func TestTeamLearnsOnceOfPausesByRule(t *testing.T) {
	f := newTeamFleet(t)
	p := &ruled{}
	for _, h := range f.all {
		h.o.Pauses = p
		h.o.Routes.Name("orders").OnStatus = route.OnStatus{401: route.ActionPause}
	}
	pause := func(host string) {
		p.list = append(p.list, &receivers.Pause{Receiver: receivers.Receiver{Prefix: "app1", Host: host}, Rule: "ON_STATUS 401",
			Since: time.Now().Add(f.ahead)})
	}
	pause("a.example:443")
	f.passes()
	f.want()
	f.ahead = collectFor + time.Second
	f.passes()
	f.passes()
	const by = "receivers of route orders paused by rule ON_STATUS 401: "
	const first, more = by + "1\nSince: ", by + "2\nSince: "
	f.want(first)
	if text := f.texts()[0]; !strings.Contains(text, "Receiver: a.example:443\n<https://n.example/orders/true|") {
		t.Errorf("%q", text)
	}

	f.ahead += time.Minute
	pause("b.example:443")
	f.passes()
	f.ahead += messageEvery
	f.passes()
	f.want(first, more)
	for _, x := range p.list {
		x.Resumed = true
	}
	f.ahead += messageEvery + time.Second
	f.passes()
	f.passes()
	f.want(first, more, "no receiver of route orders is paused by rule any more\n")
}

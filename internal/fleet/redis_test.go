package fleet

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

func TestKilledProcessIsDead(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	os, xs := meet(t, at(srv), 2, 2)
	killed := time.Now()
	xs[0].signal(syscall.SIGKILL)
	for _, o := range os {
		testkit.Until(t, "it is gone", func() bool { _, ok := o.goneAt(xs[0].id); return ok })
		when, _ := o.goneAt(xs[0].id)
		t.Logf("gone %s after kill -9, with a takeover of %s", when.Sub(killed).Round(time.Millisecond), testTakeover)
	}
	testkit.Until(t, "three live", func() bool { return os[0].Stats().Alive == 3 })
	if _, ok := os[0].goneAt(xs[1].id); ok {
		t.Error("one that lives is gone")
	}
}

// Its connections stay: the kernel keeps them.
func TestStoppedProcessIsNotDead(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	os, xs := meet(t, at(srv), 2, 3)
	for i, x := range xs[:2] {
		x.signal(syscall.SIGSTOP)
		// An observer that was paused itself declares no instance unresponsive until it has reached
		// Redis for as long again.
		testkit.Until(t, "it is silent", func() bool { return os[0].Stats().Unresponsive == 1 })
		time.Sleep([]time.Duration{time.Second, 4 * time.Second}[i]) // sleep: so much longer it is stopped
		x.signal(syscall.SIGCONT)
		testkit.Until(t, "all live again", func() bool { return os[0].Stats().Alive == 5 && os[1].Stats().Alive == 5 })
		if said := x.heard(); said != "" {
			t.Errorf("it said %s", said)
		}
	}
	for _, o := range os {
		if s := o.Stats(); s.Dead != 0 || s.Renamed != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A stopped instance whose connections were closed looks like a dead one. It finds out when it
// continues.
func TestProcessDeclaredDeadTakesNewID(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	os, xs := meet(t, at(srv), 1, 1)
	xs[0].signal(syscall.SIGSTOP)
	for _, line := range strings.Split(srv.Client().ClientList(t.Context()).Val(), "\n") {
		// The subscriptions of the test's process return at once.
		if id, _, ok := strings.Cut(strings.TrimPrefix(line, "id="), " "); ok && strings.Contains(line, "cmd=subscribe") {
			srv.Client().ClientKillByFilter(t.Context(), "ID", id)
		}
	}
	testkit.Until(t, "it is gone", func() bool { _, ok := os[0].goneAt(xs[0].id); return ok })
	xs[0].signal(syscall.SIGCONT)
	testkit.Until(t, "it has a new id", func() bool { return strings.HasPrefix(xs[0].heard(), "renamed "+xs[0].id) })
	testkit.Until(t, "both live", func() bool { return os[0].Stats().Alive == 2 })
	if s := os[0].Stats(); s.Renamed != 0 || s.Dead != 1 {
		t.Errorf("%+v", s)
	}
}

func TestPausedServerMakesNoInstanceDead(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	os, xs := meet(t, at(srv), 2, 2)
	srv.Pause()
	time.Sleep(4 * time.Second) // sleep: so long it is paused, four takeovers
	srv.Unpause()
	back(t, os, xs)
	if err := srv.Client().Do(t.Context(), "CLIENT", "PAUSE", "2500", "ALL").Err(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2500 * time.Millisecond) // sleep: so long its clients wait
	back(t, os, xs)
}

// back waits until all are alive, and one takeover longer. It checks that no instance was declared
// dead.
func back(t *testing.T, os []*observer, xs []*process) {
	t.Helper()
	all := func() bool {
		for _, o := range os {
			if o.Stats().Alive != len(os)+len(xs) || !o.View().Known() {
				return false
			}
		}
		return true
	}
	testkit.Until(t, "all live", all)
	time.Sleep(2 * testTakeover) // sleep: an error would show within a takeover
	testkit.Until(t, "all live", all)
	for _, o := range os {
		if s := o.Stats(); s.Dead != 0 || s.Renamed != 0 {
			t.Errorf("%+v", s)
		}
	}
	for _, x := range xs {
		if said := x.heard(); said != "" {
			t.Errorf("%s said %s", x.id, said)
		}
	}
}

func TestRestartedServerMakesNoInstanceDead(t *testing.T) {
	t.Parallel()
	// Without its data, and at once back: none can have been declared dead.
	srv := testkit.StartRedis(t)
	os, xs := meet(t, at(srv), 2, 2)
	srv.Restart()
	back(t, os, xs)

	// With its data, after several takeovers.
	srv = testkit.StartRedis(t, testkit.WithAOF(t.TempDir()))
	os, xs = meet(t, at(srv), 2, 2)
	srv.Kill()
	time.Sleep(3 * testTakeover) // sleep: so long it is away
	srv.Restart()
	back(t, os, xs)
}

// Subscriptions that are closed are retried.
func TestClosedSubscriptionsMakeNoInstanceDead(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	os, xs := meet(t, at(srv), 2, 2)
	for range 20 {
		srv.Client().ClientKillByFilter(t.Context(), "TYPE", "pubsub")
		time.Sleep(150 * time.Millisecond) // sleep: between one and the next
	}
	back(t, os, xs)
}

// as is the place of instances that log in as a user with the given rules.
func as(t *testing.T, srv *testkit.Redis, rules ...string) place {
	t.Helper()
	if err := srv.Client().ACLSetUser(t.Context(), "limited", append([]string{"on", ">x"}, rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
	return place{"standalone", strings.Replace(srv.URL(), "redis://", "redis://limited:x@", 1), srv.Namespace()}
}

// The deployed user may send all commands of the fleet.
func TestDeployedUserHasAllRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/users.acl")
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "user" && f[1] == "notifier" {
			for _, r := range f[2:] {
				if r != "resetpass" {
					rules = append(rules, r)
				}
			}
		}
	}
	srv := testkit.StartRedis(t)
	os, xs := meet(t, as(t, srv, rules...), 1, 1)
	xs[0].signal(syscall.SIGKILL)
	testkit.Until(t, "it is gone", func() bool { _, ok := os[0].goneAt(xs[0].id); return ok })
	if s := os[0].Stats(); s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	var list []Instance
	list, err = List(t.Context(), os[0].o.Redis.(*Store))
	if err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	os[0].leave()
	if denied := srv.Client().Do(t.Context(), "ACL", "LOG").Val(); len(denied.([]any)) != 0 {
		t.Errorf("denied: %v", denied)
	}
}

// Where connections cannot be counted or made, a killed instance is unresponsive and its leases
// decide.
func TestMissingRightsMakeNoInstanceDead(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]string{
		"no NUMSUB":    {"~*", "&*", "+@all", "-pubsub"},
		"no channels":  {"~*", "resetchannels", "+@all"},
		"no SUBSCRIBE": {"~*", "&*", "+@all", "-subscribe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testkit.StartRedis(t)
			p := as(t, srv, rules...)
			o, x := observe(t, p), spawn(t, p)
			testkit.Until(t, "both live", func() bool { return o.Stats().Alive == 2 })
			x.signal(syscall.SIGKILL)
			testkit.Until(t, "it is silent", func() bool { return o.Stats().Unresponsive == 1 })
			time.Sleep(2 * testTakeover) // sleep: it would be gone by then
			if s := o.Stats(); s.Dead != 0 || s.Unresponsive != 1 || s.Failed != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// figures is the payload of a heartbeat.
type figures []byte

func (f figures) Figures() []byte       { return f }
func (figures) Changed(*View)           {}
func (figures) Dead(string)             {}
func (figures) Tapped([]string)         {}
func (figures) Receivers(string)        {}
func (figures) Received(string, string) {}

func TestListReturnsAllInstances(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	p := at(srv)
	started := time.Now().UTC().Truncate(time.Second)
	a := observe(t, p, func(o *Options) {
		o.About = About{Label: "a", Version: "v1", Started: started, Routes: map[string]string{"pay": "1234"}}
		o.Host = figures(`{"scheduled":7}`)
	})
	b := observe(t, p, func(o *Options) {
		o.Takeover = 0
		o.Host = figures(make([]byte, MaxAbout+1))
	})
	x := spawn(t, p)
	testkit.Until(t, "all live", func() bool { return a.Stats().Alive == 3 && b.Stats().Alive == 3 })
	b.Retire()
	x.signal(syscall.SIGSTOP)
	s := a.o.Redis.(*Store)
	srv.Client().HSet(t.Context(), s.w.Space.FleetAbout(), x.id, "{", x.id+" figures", "{")
	srv.Client().ZAdd(t.Context(), s.w.Space.FleetSigns(), redis.Z{Member: "foreign", Score: 1e12})
	byID := map[string]Instance{}
	testkit.Until(t, "one of each", func() bool {
		list, err := List(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		states := map[State]int{}
		for _, i := range list {
			byID[i.ID] = i
			states[i.State]++
		}
		return len(list) == 3 && states[Alive] == 1 && states[Leaving] == 1 && states[Unresponsive] == 1
	})
	ia := byID[a.ID()]
	if ia.Label != "a" || ia.Version != "v1" || !ia.Started.Equal(started) || ia.Routes["pay"] != "1234" || ia.Takeover != 1000 ||
		string(ia.Figures) != `{"scheduled":7}` || ia.State != Alive || time.Since(ia.Seen) > time.Minute {
		t.Errorf("%+v", ia)
	}
	if ib := byID[b.ID()]; ib.Takeover != 0 || ib.Figures != nil || ib.State != Leaving {
		t.Errorf("%+v", ib)
	}
	if ix := byID[x.id]; ix.Label != "" || ix.Figures != nil || ix.State != Unresponsive {
		t.Errorf("%+v", ix)
	}
	if _, err := json.Marshal(byID); err != nil {
		t.Error(err)
	}
}

// Eight idle instances send a bounded number of commands.
func TestIdleCommandsAreBounded(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	var os []*observer
	for range 8 {
		os = append(os, observe(t, at(srv), func(o *Options) { o.Takeover = 3 * time.Second }))
	}
	testkit.Until(t, "all live", func() bool {
		for _, o := range os {
			if o.Stats().Alive != 8 {
				return false
			}
		}
		return true
	})
	sent := func() (n int) {
		// Commands that a script calls count too; these are sent by clients alone.
		for line := range strings.Lines(srv.Client().Info(t.Context(), "commandstats").Val()) {
			for _, name := range []string{"evalsha", "eval", "hmget", "subscribe", "hello"} {
				if rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls="); ok {
					count, _, _ := strings.Cut(rest, ",")
					var calls int
					_ = json.Unmarshal([]byte(count), &calls)
					n += calls
				}
			}
		}
		return n
	}
	time.Sleep(2 * time.Second) // sleep: the last of what a start brings
	before, begun := sent(), time.Now()
	time.Sleep(5 * time.Second) // sleep: so long is counted
	perSecond := float64(sent()-before) / time.Since(begun).Seconds()
	t.Logf("%.1f commands/s of 8 instances", perSecond)
	// One each, and some for subscriptions that are retried on a busy machine.
	if perSecond > 14 {
		t.Errorf("%.1f commands/s of 8 instances, want one each", perSecond)
	}
}

// A cluster of one node has the slots and errors of a larger one.
func TestFleetWorksInCluster(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig("cluster-enabled yes"))
	ctx := context.Background()
	if err := srv.Client().ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the cluster agrees", func() bool { return srv.Client().Set(ctx, "probe", "x", 0).Err() == nil })
	os, xs := meet(t, place{"cluster", "redis://" + srv.Addr(), "notifier"}, 1, 2)
	xs[0].signal(syscall.SIGKILL)
	testkit.Until(t, "it is gone", func() bool { _, ok := os[0].goneAt(xs[0].id); return ok })
	slot := srv.Client().ClusterKeySlot(ctx, keys.Space{Namespace: "notifier"}.FleetSigns()).Val()
	if n := srv.Client().ClusterCountKeysInSlot(ctx, int(slot)).Val(); n != 3 {
		t.Errorf("%d of the fleet's keys in its slot", n)
	}
}

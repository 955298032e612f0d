//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"notifier/client"
	"notifier/test/record"
)

var (
	flagMinutes   = flag.Float64("chaos.minutes", 3, "how long faults are made, in all")
	flagSeed      = flag.Uint64("chaos.seed", 0, "decides the faults; 0 = another each time")
	flagInstances = flag.Int("chaos.instances", 3, "instances of the service")
	flagRate      = flag.Int("chaos.rate", 100, "notices a second")
	flagFault     = flag.String("chaos.fault", "", "this fault alone")
	flagOnly      = flag.String("chaos.only", "", "standalone, sentinel or cluster alone")
)

// run is one topology in one mode.
type run struct {
	t         testing.TB
	binary    string
	mode      string
	servers   *servers
	instances []*instance
	ledger    *ledger
	clock     *clock
	disk      string // a small file system that Redis's files are in; empty = none
	dice      *rand.Rand
	over      atomic.Bool
	ahead     atomic.Bool
	mu        sync.Mutex      // guards dice and busy
	busy      map[string]bool // targets with a fault now: a second one could undo the first
	recovered map[string]time.Duration
	verdict   *verdict
	took      time.Duration
}

func (x *run) future() bool { return x.ahead.Load() }

func TestChaos(t *testing.T) {
	seed := *flagSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1e9
	}
	binary := build(t)
	var all []*run
	kinds := []struct {
		name  string
		make  func(testing.TB, string, *clock) *servers
		share float64
	}{{"standalone", standalone, 0.5}, {"sentinel", sentinel, 0.25}, {"cluster", cluster, 0.25}}
	for i, k := range kinds {
		if *flagOnly != "" && *flagOnly != k.name {
			continue
		}
		share := k.share
		if *flagOnly != "" {
			share = 1
		}
		for j, mode := range []string{"safety", "liveness"} {
			t.Run(k.name+" "+mode, func(t *testing.T) {
				x := newRun(t, binary, mode, rand.New(rand.NewPCG(seed, uint64(2*i+j))))
				from := time.Now()
				x.play(k.make, time.Duration(share*60/2**flagMinutes)*time.Second)
				x.took = time.Since(from)
				x.fail()
				all = append(all, x)
			})
		}
	}
	text := table(all, seed)
	t.Log("\n" + text)
	if os.Getenv("RECORD") != "" && !t.Failed() {
		if err := record.Save(filepath.Join("..", ".."), "chaos", text); err != nil {
			t.Error(err)
		}
	}
}

func newRun(t testing.TB, binary, mode string, dice *rand.Rand) *run {
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxiproxy's log
	return &run{t: t, binary: binary, mode: mode, ledger: newLedger(), dice: dice, busy: map[string]bool{},
		recovered: map[string]time.Duration{}}
}

// play runs the topology for a time, and judges.
func (x *run) play(servers func(testing.TB, string, *clock) *servers, long time.Duration) {
	x.start(servers, firstFail, "NOTIFIER_ROUTE_PAY_TIMEOUT=3s", "NOTIFIER_ROUTE_PAY_RETRY=300ms,500ms,1s,1s,2s,2s,3s,3s,4s,5s,5s,5s")
	ctx, stop := context.WithCancel(context.Background())
	var produced sync.WaitGroup
	produced.Go(func() { x.produce(ctx, *flagRate) })
	until := time.Now().Add(long)
	if x.mode == "safety" {
		x.safety(until)
	} else {
		x.liveness(until)
	}
	stop()
	x.over.Store(true)
	produced.Wait()
	x.settle()
	x.verdict = x.ledger.judge()
}

// start starts the servers, the receiver and the instances, and waits until the instances are ready. env is more of their
// environment.
func (x *run) start(servers func(testing.TB, string, *clock) *servers, answer func(key string, attempt int) (time.Duration, bool),
	env ...string) {
	t := x.t
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=256m"); err == nil {
		x.disk = data
		t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	}
	x.clock = newClock(dir)
	x.servers = servers(t, data, x.clock)
	target := receive(t, x.ledger, answer)
	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	for i := range *flagInstances {
		env := slices.Concat(x.servers.env, []string{"NOTIFIER_ROUTES=pay", "NOTIFIER_ROUTE_PAY_PREFIX=pay",
			"NOTIFIER_ROUTE_PAY_TARGET=" + target, "NOTIFIER_ROUTE_PAY_HOST_CONCURRENCY=64",
			"NOTIFIER_RETENTION=4h"}, env) // above the clock's leaps of at most 2 h, so that no leap trims a notice
		var proxy *toxiproxy.Proxy
		if len(x.servers.nodes) == 1 {
			proxy = toxiproxy.NewProxy(proxies, fmt.Sprint("p", i), "127.0.0.1:0", x.servers.nodes[0].addr())
			if err := proxy.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(proxy.Stop)
			env = append(env, "NOTIFIER_REDIS_URL=redis://"+proxy.Listen+"/0")
		}
		n := newInstance(t, x.binary, i, dir, env)
		n.proxy = proxy
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		x.instances = append(x.instances, n)
	}
	for _, n := range x.instances {
		if !n.ready(time.Minute) {
			b, _ := os.ReadFile(n.log)
			t.Fatalf("%s is not ready: %s", n.name, b)
		}
	}
}

// fail reports each promise that was not kept.
func (x *run) fail() {
	t, v := x.t, x.verdict
	for _, d := range v.Duplicates {
		t.Logf("duplicate: %s", d)
	}
	for _, d := range v.Unexplained {
		t.Errorf("a duplicate that no fault explains: %s", d)
	}
	for what, list := range map[string][]string{"lost": v.Lost, "early": v.Early, "sent after its cancellation": v.Uncalled,
		"another webhook-id or reason": v.Wrong, "sent after its expiry": v.Expired} {
		for _, s := range list[:min(len(list), 20)] {
			t.Errorf("%s: %s", what, s)
		}
	}
	if !v.ok() {
		for _, n := range x.instances {
			b, _ := os.ReadFile(n.log)
			t.Logf("%s: %s", n.name, b[max(0, len(b)-3000):])
		}
	}
}

// safety makes faults, up to three at a time, until an instant.
func (x *run) safety(until time.Time) {
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for time.Now().Before(until) {
				x.fault()
				x.pause(100, 1500)
			}
		})
	}
	wg.Wait()
}

// liveness makes one fault after another, and waits after each until nothing that
// is due waits for its first attempt.
func (x *run) liveness(until time.Time) {
	names := slices.Sorted(maps.Keys(x.faults()))
	for i := 0; time.Now().Before(until); i++ {
		what := names[i%len(names)]
		if !x.try(what) {
			continue
		}
		ended := time.Now()
		const limit = 60 * time.Second
		for len(x.ledger.waiting(500*time.Millisecond)) > 0 {
			if time.Since(ended) > limit {
				left := x.ledger.waiting(time.Second)
				x.t.Errorf("%s after the end of the fault %q, %d due notices wait, such as %s", limit, what, len(left), left[:min(len(left), 3)])
				x.t.Log(x.stats())
				break
			}
			time.Sleep(50 * time.Millisecond) // sleep: polls until the limit
		}
		x.ledger.mu.Lock()
		x.recovered[what] = max(x.recovered[what], time.Since(ended))
		x.ledger.mu.Unlock()
		x.pause(500, 1500)
	}
}

// settle ends all faults and waits until every promise is kept.
func (x *run) settle() {
	limit := time.Now().Add(3 * time.Minute)
	// A step of a ladder that was taken while the clock was an hour ahead is due in an
	// hour: once all else has come, the hour passes.
	leap := time.Now().Add(30 * time.Second)
	for left := x.ledger.unfinished(); len(left) > 0 && time.Now().Before(limit); left = x.ledger.unfinished() {
		for _, key := range left[:min(len(left), 50)] {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			n, err := x.instances[0].api.Get(ctx, key)
			cancel()
			if err == nil && n.State == client.Dead {
				x.ledger.died(key, n)
			}
		}
		if x.mode != "sequences" && len(x.servers.nodes) == 1 && len(x.clock.env) > 0 && time.Now().After(leap) {
			leap = limit
			s, end := x.ledger.begin("clock two hours ahead, at the end", true, time.Second)
			x.ledger.strike(s, "")
			err := x.clock.set(x.ledger, 2*time.Hour)
			end()
			if err != nil {
				x.t.Error(err)
			}
		}
		time.Sleep(200 * time.Millisecond) // sleep: polls until the limit
	}
	for _, key := range x.ledger.unfinished() {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		n, err := x.instances[0].api.Get(ctx, key)
		cancel()
		x.t.Logf("%s is not finished: %.700s, %v", key, raw(n), err)
	}
}

// stats is what each instance says of itself; it decides nothing.
func (x *run) stats() string {
	var b strings.Builder
	for _, n := range x.instances {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		s, err := n.api.Stats(ctx)
		cancel()
		if err == nil {
			fmt.Fprintf(&b, "%s: %s\n", n.name, s.JSON)
		}
	}
	return b.String()
}

func raw(n *client.Notice) []byte {
	if n == nil {
		return nil
	}
	return n.JSON
}

func (x *run) roll(n int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dice.IntN(n)
}

func (x *run) pause(least, most int) {
	time.Sleep(time.Duration(least+x.roll(most-least+1)) * time.Millisecond) // sleep: how long a fault lasts
}

// fault makes any fault.
func (x *run) fault() {
	names := slices.Sorted(maps.Keys(x.faults()))
	x.try(names[x.roll(len(names))])
}

// try makes a fault, notes it, and reports whether it was made. What two faults
// at a time would undo for each other is made by one.
func (x *run) try(what string) bool { return x.make(what, x.faults()[what]) }

func (x *run) make(what string, f fault) bool {
	x.mu.Lock()
	if x.busy[f.of] {
		x.mu.Unlock()
		time.Sleep(50 * time.Millisecond) // sleep: another fault has it
		return false
	}
	x.busy[f.of] = true
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.busy[f.of] = false
		x.mu.Unlock()
	}()
	s, end := x.ledger.begin(what, f.duplicates, f.felt)
	s.overtakes = f.overtakes
	defer end()
	return f.do(x, s)
}

// revive starts a server that has ended.
func (x *run) revive(n *node) bool {
	if n.runs() {
		n.kill()
	}
	if err := n.start(); err != nil {
		b, _ := os.ReadFile(filepath.Join(n.dir, "log"))
		x.t.Errorf("a server does not start again: %v: %s", err, b[max(0, len(b)-500):])
		return false
	}
	return true
}

// failover takes the master away until Sentinel has made the other one master.
func (x *run) failover(s *span, pair []*node, away, back func(*node)) bool {
	old := master(pair)
	if old == nil {
		return false
	}
	other := pair[0]
	if other == old {
		other = pair[1]
	}
	if old.field("replication", "connected_slaves") != "1" || other.field("replication", "master_link_status") != "up" {
		return false // no replica to promote
	}
	x.ledger.strike(s, "")
	away(old)
	limit := time.Now().Add(30 * time.Second)
	for other.field("replication", "role") != "master" && time.Now().Before(limit) {
		time.Sleep(50 * time.Millisecond) // sleep: polls until the limit
	}
	back(old)
	// Until the old master is a replica, no server could replace the new one.
	for other.field("replication", "connected_slaves") != "1" && time.Now().Before(limit.Add(30*time.Second)) {
		time.Sleep(50 * time.Millisecond) // sleep: polls until the limit
	}
	return true
}

func table(all []*run, seed uint64) string {
	var b strings.Builder
	version, _ := exec.Command("redis-server", "--version").Output()
	fmt.Fprintf(&b, "Seed %d, %d instances, %d notices a second, %.3g minutes of faults; %s, %s, %s/%s, %d processors, commit %s.\n\n", seed,
		*flagInstances, *flagRate, *flagMinutes,
		strings.Join(strings.Fields(string(version))[:3], " "), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		record.Revision())
	b.WriteString("| run | took | promised | arrivals | faults | lost | early | after cancellation | duplicates | unexplained | never " +
		"acknowledged | dead letters | first arrivals late: p50, p99 |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range all {
		v, n := x.verdict, 0
		for _, e := range v.Faults {
			n += e.times
		}
		fmt.Fprintf(&b, "| %s, %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %s, %s |\n", x.servers.name, x.mode,
			x.took.Round(time.Second), v.Promised, v.Arrivals, n, len(v.Lost), len(v.Early),
			len(v.Uncalled), len(v.Duplicates), len(v.Unexplained), v.Unpromised, v.Dead, v.P50.Round(time.Millisecond),
			v.P99.Round(time.Millisecond))
	}
	for _, x := range all {
		x.tableOfFaults(&b)
		x.listOfDuplicates(&b)
	}
	return b.String()
}

// tableOfFaults has a row for each fault of a run.
func (x *run) tableOfFaults(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s, %s:\n\n| fault | may duplicate | times | calls in flight at its instant, by instance | duplicates |",
		x.servers.name, x.mode)
	line := "|---|---|---|---|---|"
	if x.mode == "liveness" {
		b.WriteString(" from its end until nothing due waited, at most |")
		line += "---|"
	}
	b.WriteString("\n" + line + "\n")
	for _, what := range slices.Sorted(maps.Keys(x.verdict.Faults)) {
		e := x.verdict.Faults[what]
		may := "no"
		if e.duplicates {
			may = "yes"
		}
		fmt.Fprintf(b, "| %s | %s | %d | %s | %d |", what, may, e.times, cmp.Or(counts(e.inFlight), "0"), e.caused)
		if x.mode == "liveness" {
			fmt.Fprintf(b, " %s |", x.recovered[what].Round(10*time.Millisecond))
		}
		b.WriteString("\n")
	}
	if x.clock.why != "" {
		fmt.Fprintf(b, "\nRedis's clock was not moved: %s.\n", x.clock.why)
	}
	if x.disk == "" {
		b.WriteString("\nNo disk was filled: a small file system could not be mounted.\n")
	}
}

// mostListed is how many duplicates of a run the record lists; the test's log has all.
const mostListed = 100

// listOfDuplicates has a line for each duplicate of a run, with its cause.
func (x *run) listOfDuplicates(b *strings.Builder) {
	all := x.verdict.Duplicates
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\nDuplicates of %s, %s:\n\n", x.servers.name, x.mode)
	for _, d := range all[:min(len(all), mostListed)] {
		fmt.Fprintf(b, "- %s\n", d)
	}
	if more := len(all) - mostListed; more > 0 {
		fmt.Fprintf(b, "- and %d more, which the log of the run lists\n", more)
	}
}

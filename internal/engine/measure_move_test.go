//go:build measure

package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/test/record"
)

// TestMeasureReshard moves RESHARD_NOTICES (1,000,000) pending notices to six shards and to four,
// while other notices are due and scheduled. It measures the duration, the lateness of the others,
// the longest call in Redis, and the cost of the guard in each script. Engine, Redis and mover
// share the machine. RECORD=1 writes docs/upgrade.md. Missed goals are only logged, because the
// machine may be busy. Lost or duplicate notices fail.
func TestMeasureReshard(t *testing.T) {
	t.Parallel()
	m := &measurement{t: t, srv: testkit.StartRedis(t), notices: number(t, "RESHARD_NOTICES", 1_000_000),
		drain: number(t, "RESHARD_DRAIN", 100_000)}
	began := time.Now()
	m.moves()
	m.compares()
	if t.Failed() || os.Getenv("RECORD") == "" {
		return
	}
	text := fmt.Sprintf("`make reshard-load`, %s, on %d processors with Redis %s beside it, all in %s. Bodies have 200 bytes.\n\n"+
		"| what | goal | measured |\n|---|---|---|\n%s", time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), m.redisVersion(),
		time.Since(began).Round(time.Second), m.table.String())
	if err := record.Write(filepath.Join("..", "..", "docs", "upgrade.md"), "reshard-load", text); err != nil {
		t.Fatal(err)
	}
}

// moves has the shards replaced twice under a load of 500 due and 500 scheduled a second.
func (m *measurement) moves() {
	const each, ahead, seconds = 500, 2 * time.Second, 600
	h := &late{took: make([]atomic.Int64, seconds*each)}
	w := m.begin(false, h)
	defer w.stop()
	for i := 0; i < m.notices; i += 1000 {
		var reqs []store.Request
		for j := i; j < min(i+1000, m.notices); j++ {
			reqs = append(reqs, store.Request{Key: fmt.Sprintf("app1:m:far:%d", j), Delay: 24 * time.Hour,
				Content: notice.Content{Body: []byte(bodyOf(j))}})
		}
		for _, r := range w.ScheduleMany(m.t.Context(), reqs) {
			if r.Err != nil || !r.Created {
				m.t.Fatalf("schedule: %+v", r)
			}
		}
	}
	var put atomic.Int64
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.load(ctx, w, each, ahead, &put)
	}()
	rest := func(turns int) (from, to int) {
		from = int(put.Load())
		select {
		case <-time.After(time.Duration(turns) * time.Second):
		case <-done:
		}
		return from, int(put.Load())
	}
	c := m.srv.Client()
	set := func(name string, n int) {
		if err := c.ConfigSet(m.t.Context(), name, strconv.Itoa(n)).Err(); err != nil {
			m.t.Fatal(err)
		}
	}
	first := m.first()
	set("slowlog-log-slower-than", 1000) // µs
	set("slowlog-max-len", 10000)
	alone := [2]int{}
	alone[0], alone[1] = rest(20)
	if err := c.Do(m.t.Context(), "slowlog", "reset").Err(); err != nil {
		m.t.Fatal(err)
	}
	for _, shards := range []int{6, 4} {
		first, from := int(put.Load()), time.Now()
		got, err := move.Reshard(m.t.Context(), move.Options{Conn: w.o.Conn, Namespace: w.srv.Namespace(), To: shards})
		if err != nil {
			m.t.Fatal(err)
		}
		took, last := time.Since(from), int(put.Load())
		// Notices that were scheduled during the move are finalized after the same time again.
		m.until("the notices due during the move are settled", time.Minute, func() bool { return h.n.Load() >= int64(last) })
		mean, p99 := h.of(alone[0], alone[1])
		meanNow, p99Now := h.of(first, last)
		m.say(fmt.Sprintf("%d notices moved to %d shards, beside %d due and %d scheduled a second", got.Moved, shards, each, each),
			"at most 10 minutes; p99 at most 50 ms late", fmt.Sprintf("%s; lateness during the move %.2f ms (mean), %.1f ms (p99), before the "+
				"move %.2f and %.1f ms", took.Round(100*time.Millisecond), ms(meanNow), ms(p99Now), ms(mean), ms(p99)))
	}
	still := make(chan time.Duration)
	go func() { still <- standstill(10 * time.Second) }()
	stood := <-still
	cancel()
	<-done
	total := int(put.Load())
	m.until("all are settled", time.Minute, func() bool { return h.n.Load() >= int64(total) })
	for i := range total {
		if h.took[i].Load() == 0 {
			m.t.Errorf("%d was lost", i)
		}
	}
	if n := h.more.Load(); n > 0 {
		m.t.Errorf("%d came twice", n)
	}
	space := w.Store().Space()
	pending := func(from, to int) (n int64) {
		for place := from; place < to; place++ {
			n += c.ZCard(m.t.Context(), space.Shadow(keys.Partition{Prefix: "app1", Shard: place})).Val()
		}
		return n
	}
	m.until("none but the others is pending", time.Minute, func() bool { return pending(space.First(), space.Places()) == int64(m.notices) })
	if n := pending(0, space.First()); n > 0 {
		m.t.Errorf("former shards hold %d", n)
	}
	entries, err := c.SlowLogGet(m.t.Context(), 10000).Result()
	if err != nil {
		m.t.Fatal(err)
	}
	slices.SortFunc(entries, func(a, b redis.SlowLog) int { return int(b.Duration - a.Duration) })
	longest := "none took 1 ms"
	over := 0
	for _, e := range entries {
		if e.Duration > 5*time.Millisecond {
			over++
		}
	}
	if len(entries) > 0 {
		longest = fmt.Sprintf("%.1f ms; %d of those above 1 ms took more than 5", ms(entries[0].Duration), over)
		for _, e := range entries[:min(5, len(entries))] {
			m.t.Logf("%s: %.150q", e.Duration, e.Args)
		}
	}
	m.say("the longest call in Redis during the move, by its slow log; "+first, "at most 5 ms",
		fmt.Sprintf("%s; a thread of the same priority that only reads the clock stood still for %.1f ms in the 10 s after", longest, ms(stood)))
}

// standstill returns the longest time within d in which a thread that only reads the clock does not
// run. That is the error which the machine adds to each measurement.
func standstill(d time.Duration) (longest time.Duration) {
	runtime.LockOSThread() // and never unlocked: the thread ends with its priority
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20)
	for from, last := time.Now(), time.Now(); last.Sub(from) < d; {
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
	return longest
}

// first has Redis run before the others that share the processors, where that is
// allowed, and says whether: its slow log is of the clock, and a call that others
// interrupt looks as long as if it had worked.
func (m *measurement) first() string {
	info := m.srv.Client().InfoMap(m.t.Context(), "server").Item("Server", "process_id")
	pid, err := strconv.Atoi(info)
	if err != nil {
		m.t.Fatalf("Redis's process is %q", info)
	}
	before, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid)
	if err == nil {
		// The system call returns 20 minus the nice value.
		err = syscall.Setpriority(syscall.PRIO_PROCESS, pid, max(20-before-20, -20))
	}
	if err != nil {
		m.t.Logf("cannot change Redis's priority: %v", err)
		return "it shares the processors with all others"
	}
	return "it runs before the others that share the processors"
}

// load schedules so many a second, each due after ahead, and counts them, until ctx ends.
func (m *measurement) load(ctx context.Context, w *world, each int, ahead time.Duration, put *atomic.Int64) {
	from := time.Now()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(from.Add(time.Duration(i) * time.Second / time.Duration(each)))):
		}
		r, err := w.Schedule(m.t.Context(), store.Request{Key: fmt.Sprintf("app1:m:t:%d", i), Due: time.Now().Add(ahead),
			Content: notice.Content{Body: []byte(bodyOf(i))}})
		if err != nil || !r.Created {
			m.t.Errorf("schedule: %+v, %v", r, err)
			return
		}
		put.Store(int64(i + 1))
	}
}

var evalshaStat = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),usec=(\d+)`)

// scripts are the calls of scripts there were, and their time by Redis's own measure.
func (m *measurement) scripts() (calls, usec float64) {
	found := evalshaStat.FindStringSubmatch(m.srv.Client().Info(m.t.Context(), "commandstats").Val())
	if found == nil {
		return 0, 0
	}
	calls, _ = strconv.ParseFloat(found[1], 64)
	usec, _ = strconv.ParseFloat(found[2], 64)
	return calls, usec
}

// compares measures the cost of the guard: alone, and by the number of script calls of a drain.
func (m *measurement) compares() {
	c := m.srv.Client()
	source, err := os.ReadFile(filepath.Join("..", "store", "lua", "guard.lua"))
	if err != nil {
		m.t.Fatal(err)
	}
	reset := func() {
		if err := c.ConfigResetStat(m.t.Context()).Err(); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := c.HSet(m.t.Context(), "notifier:{0}:layout", "state", "<state>").Err(); err != nil {
		m.t.Fatal(err)
	}
	cost := func(text string) float64 {
		sha, err := c.ScriptLoad(m.t.Context(), text).Result()
		if err != nil {
			m.t.Fatal(err)
		}
		reset()
		for range 100 {
			pipe := c.Pipeline()
			for range 1000 {
				pipe.EvalSha(m.t.Context(), sha, []string{"notifier:{0}:layout"})
			}
			if _, err := pipe.Exec(m.t.Context()); err != nil {
				m.t.Fatal(err)
			}
		}
		calls, usec := m.scripts()
		return usec / calls
	}
	var costs []float64
	for range 5 {
		bare := cost("return 0")
		costs = append(costs, cost(string(source)+"\nreturn 0")-bare)
	}
	one := median(costs)
	h := &late{took: make([]atomic.Int64, m.drain)}
	w := m.begin(false, h)
	defer w.stop()
	due := time.Now().Add(time.Duration(m.drain)*40*time.Microsecond + 500*time.Millisecond)
	m.put(w, 0, m.drain, func(int) time.Time { return due })
	reset()
	m.until("all are settled", 5*time.Minute, func() bool {
		return c.ZCard(m.t.Context(),
			"notifier:{0}:settled:app1").Val() == int64(m.drain)
	})
	calls, usec := m.scripts()
	m.say(fmt.Sprintf("cost of the guard for each script call, and its share of Redis's time for %d notices due in one millisecond",
		m.drain), "at most 2 %",
		fmt.Sprintf("%.2f µs, %.3f calls and %.1f µs a notice: %.2f %%", one, calls/float64(m.drain), usec/float64(m.drain), 100*one*calls/usec))
}

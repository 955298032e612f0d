//go:build measure

package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/test/record"
)

// number is a size of the measurement, from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number", name, text)
	}
	return n
}

// TestMeasureHistory measures the cost and the rate of a history, with an engine in this process, a
// Redis and a PostgreSQL that syncs, all on this machine. It compares HISTORY_NOTICES (1,000,000)
// rows with the producer's replies and the handler's calls. RECORD=1 writes docs/history.md. Missed
// goals are only printed, because the machine may be busy. Wrong rows fail.
func TestMeasureHistory(t *testing.T) {
	t.Parallel()
	m := &measurement{t: t, srv: testkit.StartRedis(t), pg: testkit.StartPostgres(t),
		drain: number(t, "HISTORY_DRAIN", 100_000), pairs: number(t, "HISTORY_PAIRS", 7), notices: number(t, "HISTORY_NOTICES", 1_000_000),
		turn: time.Duration(number(t, "HISTORY_TURN", 60)) * time.Second}
	began := time.Now()
	m.drains()
	m.catchesUp()
	m.catchesUpBesideLoad()
	m.isPunctual()
	if t.Failed() || os.Getenv("RECORD") == "" {
		return
	}
	text := fmt.Sprintf("`make history-load`, %s, on %d processors with Redis %s and PostgreSQL %s beside it, all in %s. Bodies have 200 "+
		"bytes.\n\n| what | goal | measured |\n|---|---|---|\n%s", time.Now().UTC().Format("2006-01-02"), runtime.NumCPU(), m.redisVersion(),
		m.postgresVersion(), time.Since(began).Round(time.Second), m.table.String())
	if err := record.Write(filepath.Join("..", "..", "docs", "history.md"), "history-load", text); err != nil {
		t.Fatal(err)
	}
}

// measurement is one run.
type measurement struct {
	t            *testing.T
	srv          *testkit.Redis
	pg           *testkit.Postgres
	drain, pairs int
	notices      int
	turn         time.Duration
	table        strings.Builder
	database     string
}

func (m *measurement) say(what, goal, measured string) {
	m.t.Logf("%s: %s (goal: %s)", what, measured, goal)
	fmt.Fprintf(&m.table, "| %s | %s | %s |\n", what, goal, measured)
}

func (m *measurement) redisVersion() string {
	for line := range strings.Lines(m.srv.Client().Info(m.t.Context(), "server").Val()) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return v
		}
	}
	return "?"
}

func (m *measurement) postgresVersion() string {
	v := "?"
	m.query("SHOW server_version", func(rows pgx.Rows) error { return rows.Scan(&v) })
	v, _, _ = strings.Cut(v, " ")
	return v
}

// query asks the database, without any code of the service.
func (m *measurement) query(text string, each func(rows pgx.Rows) error) {
	m.t.Helper()
	c, err := pgx.Connect(m.t.Context(), m.database)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = c.Close(m.t.Context()) }()
	rows, err := c.Query(m.t.Context(), text)
	if err != nil {
		m.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		m.t.Fatal(err)
	}
}

// begin starts an engine on an empty Redis, with an empty history if it keeps one.
func (m *measurement) begin(kept bool, h *late) *world {
	m.t.Helper()
	if err := m.srv.Client().FlushAll(m.t.Context()).Err(); err != nil {
		m.t.Fatal(err)
	}
	r := testRoute("r", "app1")
	r.Concurrency, r.Timeout = 512, 10*time.Second
	var keeps History
	if kept {
		m.database = m.pg.Database()
		d, err := history.Open(history.Options{URL: m.database})
		if err == nil {
			err = d.Begin(m.t.Context())
		}
		if err != nil {
			m.t.Fatal(err)
		}
		m.t.Cleanup(func() { _ = d.Close() })
		keeps = History{DB: d, Backlog: 10 * m.notices}
	}
	return start(m.t, m.srv, h, func(o *Options) { o.History, o.Retain = keeps, 2*m.drain }, r)
}

// waiting are how many endings the database has not confirmed.
func (m *measurement) waiting(w *world) int64 {
	return m.srv.Client().LLen(m.t.Context(), w.Store().Space().Ended(0)).Val()
}

func (m *measurement) until(what string, limit time.Duration, ok func() bool) {
	m.t.Helper()
	if !testkit.Within(limit, ok) {
		m.t.Fatalf("not within %s: %s", limit, what)
	}
}

// late is a handler that does nothing and notes how late it was called for each
// notice, which the end of the key numbers.
type late struct {
	n    atomic.Int64
	took []atomic.Int64 // ns + 1 of each notice, 0 = it was not called for it
	more atomic.Int64   // calls for a notice that it had been called for
}

func (l *late) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	ns := max(time.Since(n.Due).Nanoseconds(), 0) + 1
	i, err := strconv.Atoi(n.Key[strings.LastIndexByte(n.Key, ':')+1:])
	if err != nil || i >= len(l.took) || !l.took[i].CompareAndSwap(0, ns) {
		l.more.Add(1)
	}
	l.n.Add(1)
	return notice.Result{Outcome: notice.OutcomeDelivered, Status: 200, Response: "ok"}
}

// of is the lateness of some notices: mean, and 99 of 100.
func (l *late) of(from, to int) (mean, p99 time.Duration) {
	list := make([]time.Duration, 0, to-from)
	sum := time.Duration(0)
	for i := from; i < to; i++ {
		d := time.Duration(l.took[i].Load() - 1)
		list, sum = append(list, d), sum+d
	}
	slices.Sort(list)
	return sum / time.Duration(len(list)), list[len(list)*99/100]
}

// bodyOf is the body of 200 bytes of the i-th notice.
func bodyOf(i int) string {
	text := fmt.Sprintf(`{"order":%d,"text":"`, i)
	return text + strings.Repeat(string(rune('a'+i%26)), 200-len(text)-2) + `"}`
}

// answered is the producer's reply for a notice.
type answered struct {
	id  string
	due time.Time
}

// put schedules notices from a number on, each due when due says, and gives the answers.
func (m *measurement) put(w *world, from, n int, due func(i int) time.Time) []answered {
	m.t.Helper()
	log := make([]answered, 0, n)
	for i := from; i < from+n; i += 1000 {
		var reqs []store.Request
		for j := i; j < min(i+1000, from+n); j++ {
			reqs = append(reqs, store.Request{Key: fmt.Sprintf("app1:m:t:%d", j), Due: due(j), Content: notice.Content{Body: []byte(bodyOf(j))}})
		}
		for _, r := range w.ScheduleMany(m.t.Context(), reqs) {
			if r.Err != nil || !r.Created {
				m.t.Fatalf("schedule: %+v", r)
			}
			log = append(log, answered{r.ID(), r.Due})
		}
	}
	return log
}

func median[T cmp.Ordered](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// drains settles many that are due in one millisecond, with and without a history,
// in turn.
func (m *measurement) drains() {
	var off, on, ratios []float64
	rate := func(kept bool) float64 {
		h := &late{took: make([]atomic.Int64, m.drain)}
		w := m.begin(kept, h)
		defer w.stop()
		due := time.Now().Add(time.Duration(m.drain)*40*time.Microsecond + 500*time.Millisecond)
		m.put(w, 0, m.drain, func(int) time.Time { return due })
		if time.Until(due) < 0 {
			due = time.Now() // it took longer: they were delivered as they came
		}
		m.until("all are settled", 5*time.Minute, func() bool {
			return m.srv.Client().ZCard(m.t.Context(), "notifier:{0}:settled:app1").Val() == int64(m.drain)
		})
		took := time.Since(due)
		if kept {
			m.until("all are rows", 5*time.Minute, func() bool { return m.waiting(w) == 0 })
		}
		return float64(m.drain) / took.Seconds()
	}
	for i := range m.pairs {
		var x, y float64
		if i%2 == 0 {
			x, y = rate(false), rate(true)
		} else {
			y, x = rate(true), rate(false)
		}
		m.t.Logf("drain %d: %.0f/s without, %.0f/s with a history: %.1f %% less", i, x, y, 100*(1-y/x))
		off, on, ratios = append(off, x), append(on, y), append(ratios, y/x)
	}
	m.say(fmt.Sprintf("%d notices due in one millisecond until all are settled, without and with a history, %d times in turn", m.drain,
		m.pairs), "at most 15 % less",
		fmt.Sprintf("%.0f/s and %.0f/s; by pairs %.1f %% less (%.1f to %.1f)", median(off), median(on), 100*(1-median(ratios)),
			100*(1-slices.Max(ratios)), 100*(1-slices.Min(ratios))))
}

// catchesUp lets endings gather while the database is gone, and compares the rows.
func (m *measurement) catchesUp() {
	h := &late{took: make([]atomic.Int64, m.notices)}
	w := m.begin(true, h)
	defer w.stop()
	m.pg.Stop()
	now := time.Now().Truncate(time.Millisecond)
	log := m.put(w, 0, m.notices, func(int) time.Time { return now })
	m.until("all have ended", 30*time.Minute, func() bool { return m.waiting(w) == int64(m.notices) })
	memory, _ := m.srv.Client().MemoryUsage(m.t.Context(), w.Store().Space().Ended(0), 100).Result()
	m.pg.Again()
	back := time.Now()
	m.until("the first are rows", time.Minute, func() bool { return m.waiting(w) < int64(m.notices) })
	from, left := time.Now(), m.waiting(w)
	m.until("all are rows", time.Hour, func() bool { return m.waiting(w) == 0 })
	took := time.Since(from)
	m.say(fmt.Sprintf("%d endings that waited for the database, without load", m.notices), "at least 20,000 rows/s",
		fmt.Sprintf("%.0f rows/s, the first %.1f s after the database was there; they had %d MB of Redis", float64(left)/took.Seconds(),
			from.Sub(back).Seconds(), memory>>20))
	m.compare(h, log)
}

// compare compares each row with the producer's reply and the handler's call.
func (m *measurement) compare(h *late, log []answered) {
	seen, wrong, count := make([]byte, len(log)), 0, 0
	differs := func(format string, args ...any) {
		if wrong++; wrong <= 5 {
			m.t.Errorf(format, args...)
		}
	}
	m.query("SELECT name, concat_ws(':', app, module, type), id, ending, outcome, due, attempts_made, body_text, attempts FROM history",
		func(rows pgx.Rows) error {
			var name, prefix, id, outcome, body, attempts string
			var ending, made int
			var due time.Time
			if err := rows.Scan(&name, &prefix, &id, &ending, &outcome, &due, &made, &body, &attempts); err != nil {
				return err
			}
			count++
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(log) || prefix != "app1:m:t" {
				differs("a row of nothing: %s:%s", prefix, name)
				return nil
			}
			if seen[i]++; seen[i] > 1 || id != log[i].id || ending != 1 || outcome != "delivered" || !due.Equal(log[i].due) || made != 1 ||
				body != bodyOf(i) ||
				strings.Count(attempts, `"n":`) != 1 || !strings.Contains(attempts, `"status":200`) {
				differs("%d, the %d. row of it: %s %d %s %s %d %s %s; the producer was answered %+v", i, seen[i], id, ending, outcome, due, made,
					body, attempts, log[i])
			}
			return nil
		})
	for i := range log {
		if seen[i] != 1 || h.took[i].Load() == 0 {
			differs("%d has %d rows, and was delivered: %t", i, seen[i], h.took[i].Load() != 0)
		}
	}
	if wrong > 0 || h.more.Load() > 0 {
		m.t.Errorf("%d rows differ; %d notices were delivered more than once", wrong, h.more.Load())
	}
	m.say(fmt.Sprintf("%d rows, each compared with the producer's reply and the handler's call (id, due, outcome, body, attempt)", count),
		"0 differ", fmt.Sprintf("%d differ", wrong))
}

// catchesUpBesideLoad is catchesUp for a quarter, while 1,000 fall due each second.
func (m *measurement) catchesUpBesideLoad() {
	const each = 1000 // a second
	gathered := max(m.notices/4, 1)
	seconds := gathered/5000 + 10
	load := seconds * each
	h := &late{took: make([]atomic.Int64, gathered+load)}
	w := m.begin(true, h)
	defer w.stop()
	m.pg.Stop()
	now := time.Now().Truncate(time.Millisecond)
	m.put(w, 0, gathered, func(int) time.Time { return now })
	m.until("they have ended", 30*time.Minute, func() bool { return m.waiting(w) == int64(gathered) })
	begin := time.Now().Add(2*time.Second + time.Duration(load)*40*time.Microsecond).Truncate(time.Millisecond)
	m.put(w, gathered, load, func(i int) time.Time { return begin.Add(time.Duration(i-gathered) * time.Second / each) })
	<-time.After(time.Until(begin.Add(2 * time.Second)))
	m.pg.Again()
	rows := func() int64 { return h.n.Load() - m.waiting(w) } // except the settles that are running
	m.until("the first are rows", time.Minute, func() bool { return rows() > 2*each })
	from, before := time.Now(), rows()
	m.until("what waited are rows", time.Hour, func() bool { return m.waiting(w) < 2*each })
	took, after := time.Since(from), rows()
	left := "the load lasted throughout"
	if h.n.Load() == int64(gathered+load) {
		left = "the load had ended before"
	}
	m.until("all have come", time.Hour, func() bool { return h.n.Load() == int64(gathered+load) && m.waiting(w) == 0 })
	_, p99 := h.of(gathered, gathered+load)
	m.say(fmt.Sprintf("%d endings that waited, beside %d due a second", gathered, each), "at least 5,000 rows/s",
		fmt.Sprintf("%.0f rows/s (%s); lateness of notices %.1f ms (p99)", float64(after-before)/took.Seconds(), left, ms(p99)))
}

// isPunctual compares the lateness at 250 a second while the database is there and
// while it is gone, in turn.
func (m *measurement) isPunctual() {
	const each, turns = 250, 3
	n := int(m.turn.Seconds() * each)
	h := &late{took: make([]atomic.Int64, 2*turns*n)}
	w := m.begin(true, h)
	defer w.stop()
	var means, p99s [2][]float64
	for i := range 2 * turns {
		gone := i % 2
		if gone == 1 {
			m.pg.Stop()
		}
		begin := time.Now().Add(time.Second + time.Duration(n)*40*time.Microsecond).Truncate(time.Millisecond)
		m.put(w, i*n, n, func(j int) time.Time { return begin.Add(time.Duration(j-i*n) * time.Second / each) })
		m.until("the turn is over", m.turn+10*time.Minute, func() bool { return h.n.Load() == int64((i+1)*n) })
		mean, p99 := h.of(i*n, (i+1)*n)
		m.t.Logf("database %s: %.2f ms late, p99 %.2f ms", []string{"there", "gone"}[gone], ms(mean), ms(p99))
		means[gone], p99s[gone] = append(means[gone], ms(mean)), append(p99s[gone], ms(p99))
		if gone == 1 {
			m.pg.Again()
			m.until("it is caught up", time.Hour, func() bool { return m.waiting(w) == 0 })
		}
	}
	there, away := median(means[0]), median(means[1])
	m.say(fmt.Sprintf("lateness at %d due a second while the database is there, and while it is gone, %d times %s in turn", each, turns,
		notice.Short(m.turn)), "mean at most 1.1 times",
		fmt.Sprintf("mean %.2f and %.2f ms: %.2f times; p99 %.2f and %.2f ms", there, away, away/math.Max(there, 0.001), median(p99s[0]),
			median(p99s[1])))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

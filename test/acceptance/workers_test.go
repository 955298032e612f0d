//go:build !quick

package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

// workers are two workers beside two services, and the receivers of the services' routes.
type workers struct {
	t        *testing.T
	db       *database
	env      []string
	services [2]*service
	workers  [2]*process
	ledgers  []string // of all workers, dead ones too
	routes   map[string]*receiver
	// killed are the times of the kills, of a service and of a worker.
	serviceKills, workerKills []time.Time
}

// serviceRoutes are the routes of the services, by name. A worker's prefix is within the first, and contains the second.
var serviceRoutes = map[string]string{"shop": "shop", "bounces": "mail:bounces", "bank": "bank:transfers"}

// types are the first three parts of the keys of six prefixes, by the prefix that must handle them.
var types = []struct{ prefix, first string }{
	{workerPrefixes[0], "shop:orders:close"}, {workerPrefixes[1], "shop:refunds:poll"}, {workerPrefixes[2], "mail:offers:send"},
	{"shop", "shop:orders:pay"}, {"mail:bounces", "mail:bounces:hard"}, {"bank:transfers", "bank:transfers:run"},
}

func workerKey(i int) string { return fmt.Sprintf("%s:%d", types[i%len(types)].first, i) }

func (w *workers) startService(i int) { w.services[i] = launch(w.t, w.db.URL(), w.env) }

func (w *workers) startWorker(i int) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "ledger")
	p := &process{t: w.t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(environment([][]string{reach(w.db.URL())}), workerLedger+"="+path)
	if err := p.start(here{}); err != nil {
		w.t.Fatal(err)
	}
	w.workers[i], w.ledgers = p, append(w.ledgers, path)
	alive := 0
	for _, x := range w.workers {
		if x != nil && !x.ended() {
			alive++
		}
	}
	await(w.t, waitTimeout, "the worker has its handlers", func() bool { return p.ended() || w.running() >= alive })
	if p.ended() {
		w.t.Fatalf("the worker ended:\n%s", tail(p.log))
	}
}

// running returns how many workers handle the prefix that the fewest handle; -1 = unknown.
func (w *workers) running() int {
	l, err := w.services[1].api.Recorded(w.t.Context())
	if err != nil || len(l.Items) != len(workerPrefixes) {
		return -1
	}
	return slices.MinFunc(l.Items, func(a, b client.RecordedPrefix) int { return a.Workers - b.Workers }).Workers
}

// handling is one call of a handler or receiver.
type handling struct {
	by, key string
	attempt int
	due, at time.Time
	worker  bool
}

// runs returns the calls so far, by key, in order.
func (w *workers) runs() map[string][]handling {
	w.t.Helper()
	out := map[string][]handling{}
	for name, r := range w.routes {
		for _, h := range r.all() {
			out[h.key] = append(out[h.key], handling{by: serviceRoutes[name], key: h.key, attempt: h.attempt, due: h.due, at: h.at})
		}
	}
	for _, path := range w.ledgers {
		raw, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		for l := range strings.Lines(string(raw)) {
			x := handling{worker: true}
			var due, at int64
			if n, err := fmt.Sscanf(l, "%s %s %d %d %d", &x.by, &x.key, &x.attempt, &due, &at); n != 5 {
				w.t.Fatalf("a ledger's line %q: %v", l, err)
			}
			x.due, x.at = time.Unix(0, due), time.Unix(0, at)
			out[x.key] = append(out[x.key], x)
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b handling) int { return a.at.Compare(b.at) })
	}
	return out
}

// wait waits until n notices were handled.
func (w *workers) wait(limit time.Duration, n int) {
	w.t.Helper()
	got, next := 0, time.Now()
	if !eventually(w.t.Context(), limit, func() bool {
		if time.Now().After(next) {
			got, next = len(w.runs()), time.Now().Add(200*time.Millisecond)
		}
		return got >= n
	}) {
		w.t.Fatalf("%d of %d notices were handled within %s", got, n, limit)
	}
}

// inFlight is how long before a kill a call may have begun that the kill interrupted: the time that it takes, and the wait
// for its settle on a busy machine.
const inFlight = 3 * time.Second

// explained reports whether a call was interrupted by a kill of a process of its kind.
func (w *workers) explained(x handling) bool {
	kills := w.serviceKills
	if x.worker {
		kills = w.workerKills
	}
	return slices.ContainsFunc(kills, func(at time.Time) bool { return !x.at.After(at) && at.Sub(x.at) < inFlight })
}

// check compares all calls with the n notices, and returns how many were repeated.
func (w *workers) check(n int) (repeated int) {
	w.t.Helper()
	runs, shown := w.runs(), 0
	wrong := func(format string, args ...any) {
		if shown++; shown <= 20 {
			w.t.Errorf(format, args...)
		}
	}
	for i := range n {
		key, want := workerKey(i), types[i%len(types)].prefix
		list := runs[key]
		if len(list) == 0 {
			wrong("%s was not handled", key)
			continue
		}
		for j, x := range list {
			if x.by != want {
				wrong("%s was handled by %s, want %s", key, x.by, want)
			}
			if x.at.Before(x.due) {
				wrong("%s was handled %s early", key, x.due.Sub(x.at))
			}
			if j < len(list)-1 && !w.explained(x) {
				wrong("%s was handled again, but no kill interrupted the call before: %+v", key, list)
			}
		}
		if len(list) == 1 {
			continue
		}
		repeated++
		found, err := w.services[1].api.Get(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		interrupted := 0
		for _, a := range found.Attempts {
			if a.Reason == "interrupted" {
				interrupted++
			}
		}
		if interrupted < len(list)-1 {
			wrong("%s was handled %d times, but %d attempts are recorded as interrupted: %s", key, len(list), interrupted, found.JSON)
		}
	}
	if len(runs) != n {
		wrong("%d notices were handled, want %d", len(runs), n)
	}
	return repeated
}

// Two workers and two services share 50,000 notices of six prefixes. A worker and a service are killed, all four are
// restarted one after another, and then no worker runs until every instance has noticed that. That takes 15 s after a kill,
// and another round of 5 to 7 s in which an instance would move notices that it took for its own. A longer outage has no
// further step.
func TestTwoWorkersBesideTwoServicesThroughKills(t *testing.T) {
	const n, first, during = 50_000, 2000, 10_000 // during the outage of the workers
	w := &workers{t: t, db: newRedis(t), routes: map[string]*receiver{}}
	for name, prefix := range serviceRoutes {
		w.routes[name] = listen(t, func(http.ResponseWriter, *http.Request, hit) { time.Sleep(workerTakes) }) // sleep: the receiver's work
		w.env = append(w.env, route(name, prefix, w.routes[name].url, "CONCURRENCY=64", "HOST_CONCURRENCY=256")...)
	}
	for i := range 2 {
		w.startService(i)
	}
	for i := range 2 {
		w.startWorker(i)
	}
	began := time.Now()
	w.services[1].scheduleAll(first, func(i int) string { return line(workerKey(i), began) })
	// The others are due from the time on by which they are scheduled.
	from := time.Now().Add(time.Since(began) * 5 / 4 * (n - during - first) / first)
	w.services[1].scheduleAll(n-during-first, func(i int) string {
		return line(workerKey(first+i), from.Add(time.Duration(i)*time.Millisecond))
	})

	w.wait(3*waitTimeout, n/5)
	w.services[0].kill()
	w.serviceKills = append(w.serviceKills, time.Now())
	w.workers[0].kill()
	w.workerKills = append(w.workerKills, time.Now())
	if got := len(w.runs()); got >= n-during {
		t.Errorf("all %d notices were handled before the kills", got)
	}
	w.startService(0)
	w.startWorker(0)

	w.wait(3*waitTimeout, n*2/5)
	for i := range 2 {
		w.stopped(w.services[i].stop(waitTimeout))
		w.startService(i)
		w.stopped(w.workers[i].stop(waitTimeout))
		w.startWorker(i)
	}

	w.stopped(w.workers[0].stop(waitTimeout))
	w.workers[1].kill()
	w.workerKills = append(w.workerKills, time.Now())
	w.services[1].scheduleAll(during, func(i int) string { return line(workerKey(n-during+i), time.Now().Add(time.Second)) })
	await(t, waitTimeout, "the services have noticed that no worker runs", func() bool { return w.running() == 0 })
	time.Sleep(7 * time.Second) // sleep: the length of the outage
	for i := range 2 {
		w.startWorker(i)
	}

	w.wait(3*waitTimeout, n)
	for _, x := range types {
		await(t, waitTimeout, "all of "+x.prefix+" settled", func() bool { return w.services[1].idle(x.prefix) })
	}
	repeated := w.check(n)
	t.Logf("%d notices, of which %d were repeated after a kill; lateness of the transfers %s", n, repeated, w.routes["bank"].lateness("bank"))
}

// stopped checks the exit code of a process that got SIGTERM.
func (w *workers) stopped(code int, _ time.Duration) {
	w.t.Helper()
	if code != 0 {
		w.t.Errorf("exit code %d after SIGTERM", code)
	}
}

// idle reports whether a prefix has neither pending nor dead notices.
func (s *service) idle(prefix string) bool {
	st, err := s.api.Stats(s.t.Context())
	if err != nil {
		return false
	}
	return slices.ContainsFunc(st.Routes, func(r client.RouteNumbers) bool {
		return r.Prefix == prefix && r.Pending == 0 && r.Dead == 0 && r.Settled > 0
	})
}

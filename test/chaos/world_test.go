//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"

	"notifier/client"
	"notifier/internal/testkit"
)

// firstFail is the answer to an attempt of a notice: the key decides how many attempts fail, and how long
// each takes.
func firstFail(key string, attempt int) (takes time.Duration, fails bool) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	dice := h.Sum32()
	if takes = time.Duration(dice%50) * time.Millisecond; dice%97 == 0 {
		takes = 2 * time.Second
	}
	return takes, attempt <= int(dice/100%4)
}

// receive starts a receiver that gives each attempt the answer of a function (fails = 500), and notes all in the ledger.
func receive(t testing.TB, l *ledger, answer func(key string, attempt int) (takes time.Duration, fails bool)) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &arrival{at: time.Now(), id: r.Header.Get("Webhook-Id"), instance: r.Header.Get("X-Instance")}
		a.attempt, _ = strconv.Atoi(r.Header.Get("Notifier-Attempt"))
		a.due, _ = time.Parse(time.RFC3339, r.Header.Get("Notifier-Due"))
		key := r.Header.Get("Notifier-Key")
		l.mu.Lock()
		a.done = a.at.Add(time.Minute) // until it is
		a.clock = l.latest(a.at.Add(-felt), a.at)
		l.arrivals[key] = append(l.arrivals[key], a)
		l.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		takes, fails := answer(key, a.attempt)
		select {
		case <-time.After(takes):
		case <-r.Context().Done(): // who asked is gone: he has heard no answer
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		a.done = time.Now()
		if r.Context().Err() != nil {
			return
		}
		if fails {
			w.WriteHeader(http.StatusInternalServerError) // a 503 would ask for fewer calls
			return
		}
		a.ok = true
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// instance is a process of the built program.
type instance struct {
	name   string
	binary string
	port   int
	env    []string
	log    string
	proxy  *toxiproxy.Proxy // between it and Redis; nil where Redis is more than one server
	cmd    *exec.Cmd
	done   chan struct{}
	api    *client.Client
}

// build builds the program. flags are more flags of go build.
func build(t testing.TB, flags ...string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "notifier")
	args := slices.Concat([]string{"build", "-o", binary}, flags, []string{"notifier/cmd/notifier"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func newInstance(t testing.TB, binary string, i int, dir string, env []string) *instance {
	t.Helper()
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	n := &instance{name: fmt.Sprint("n", i), binary: binary, port: port, log: filepath.Join(dir, fmt.Sprint("n", i, ".log"))}
	addr := "127.0.0.1:" + strconv.Itoa(port)
	n.env = append([]string{"PATH=" + os.Getenv("PATH"), "NOTIFIER_LISTEN=" + addr, "NOTIFIER_INSTANCE=" + n.name, "NOTIFIER_LOG_LEVEL=warn",
		"NOTIFIER_ROUTE_PAY_HEADERS=X-Instance=" + n.name}, env...)
	n.api, err = client.New(client.Options{URL: "http://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

func (n *instance) start() error {
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	n.cmd = exec.Command(n.binary, "serve")
	n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = n.env, out, out
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.done = make(chan struct{})
	go func(c *exec.Cmd, done chan struct{}) {
		_ = c.Wait()
		close(done)
	}(n.cmd, n.done)
	return nil
}

func (n *instance) signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) }

func (n *instance) kill() {
	if n.cmd != nil {
		n.signal(syscall.SIGKILL)
		<-n.done
	}
}

// ready waits until it takes calls.
func (n *instance) ready(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for ctx.Err() == nil {
		if h, err := n.api.Ready(ctx); err == nil && h.Ready {
			return true
		}
		time.Sleep(50 * time.Millisecond) // sleep: polls until the limit
	}
	return false
}

// produce schedules notices until ctx ends, each by any instance and again and
// again until one has acknowledged it, and cancels some.
func (x *run) produce(ctx context.Context, rate int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	busy := make(chan struct{}, 200)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case busy <- struct{}{}:
		case <-ctx.Done():
			return
		}
		key := fmt.Sprintf("pay:%s:%s:%d", x.servers.name, x.mode, n)
		delay := time.Duration(n*7919%5000) * time.Millisecond
		if n%5 == 0 {
			delay = 0
		}
		wg.Go(func() {
			defer func() { <-busy }()
			// A started call completes after ctx has ended, so that its result is known.
			x.schedule(context.WithoutCancel(ctx), key, delay, n)
			if n%20 == 7 && delay > time.Second {
				x.cancel(context.WithoutCancel(ctx), key, n)
			}
		})
	}
}

// expiresAfter is how long after its due time the n-th notice expires; 0 = it does not. Some expire while their attempts fail.
func expiresAfter(n int) time.Duration {
	if n%10 == 3 {
		return 2 * time.Second
	}
	return 0
}

func (x *run) schedule(ctx context.Context, key string, delay time.Duration, n int) {
	for try := 0; ; try++ {
		if x.future() { // Redis's clock is ahead: a notice scheduled now would be due in an hour
			time.Sleep(50 * time.Millisecond) // sleep: polls until the fault is over
			continue
		}
		api := x.instances[(n+try)%len(x.instances)].api
		call, cancel := context.WithTimeout(ctx, 4*time.Second)
		got, err := api.Schedule(call, client.Request{Key: key, Delay: delay, ExpiresAfter: expiresAfter(n), Body: []byte(`{"paid":true}`)})
		cancel()
		if err == nil {
			x.ledger.mu.Lock()
			x.ledger.promises[key] = &promise{id: got.ID, due: got.Due, expires: got.Expires, acked: time.Now()}
			x.ledger.mu.Unlock()
			return
		}
		if x.over.Load() && try > 100 {
			return // never acknowledged: nothing was promised
		}
		time.Sleep(time.Duration(20+try*10) * time.Millisecond) // sleep: a producer's pause between tries
	}
}

func (x *run) cancel(ctx context.Context, key string, n int) {
	call, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	got, err := x.instances[n%len(x.instances)].api.Cancel(call, key)
	x.ledger.mu.Lock()
	defer x.ledger.mu.Unlock()
	switch p := x.ledger.promises[key]; {
	case p == nil:
	case err == nil && got.Changed && !got.InFlight:
		p.cancelled = time.Now()
	case err != nil || got.Changed || got.State == client.Cancelled:
		// The outcome is unknown: a call whose answer was lost may have cancelled the notice.
		// Neither a delivery nor its absence is an error.
		delete(x.ledger.promises, key)
	}
}

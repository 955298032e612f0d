package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunShowsEachOutcome(t *testing.T) {
	for name, emulated := range map[string]bool{"redis-server or emulated": false, "emulated": true} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Run(context.Background(), Options{Out: &out, Emulated: emulated, Version: "test"}); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, want := range []string{"NOTICE", "demo:pay:notice:1003   5 ", "demo:order:close:2001", "delivered", "17 attempts",
				"demo:pay:notice:1005   5 ", "dead", "next      notifier demo --keep",
				"6 rows in SQLite", "demo:pay:notice:1003 delivered: 500 ",
				"from the due instant to the arrival at the receiver"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			if emulated && !strings.Contains(out.String(), "emulated") {
				t.Errorf("the output does not mention the emulated Redis:\n%s", out.String())
			}
		})
	}
}

func TestInterruptedDemoIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out output
	done := make(chan error, 1)
	go func() { done <- Run(ctx, Options{Out: &out, Emulated: true, Version: "test"}) }()
	await(t, "the first attempt", func() bool { return strings.Contains(out.String(), "after scheduling") })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// output collects text that is printed while the demonstration runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// keep runs Keep. get returns a page, and end interrupts the demonstration.
func keep(t *testing.T, emulated bool) (out *output, get func(path string) string, end func()) {
	t.Helper()
	out = &output{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- Keep(ctx, Options{Out: out, Emulated: emulated, Version: "test"}) }()
	address := ""
	await(t, "the address", func() bool {
		address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(out.String())
		return address != ""
	})

	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get = func(path string) string {
		res, err := web.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, res.Status, err)
		}
		return string(b)
	}
	return out, get, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestKeepServesPagesWithTraffic(t *testing.T) {
	for name, emulated := range map[string]bool{"redis-server or emulated": false, "emulated": true} {
		t.Run(name, func(t *testing.T) {
			out, get, end := keep(t, emulated)
			await(t, "deliveries and failures", func() bool {
				page := get("/metrics")
				return regexp.MustCompile(`notifier_attempts_total\{outcome="delivered",route="pay"\} [1-9]`).MatchString(page) &&
					regexp.MustCompile(`notifier_attempts_total\{outcome="retry",route="refund"\} [1-9]`).MatchString(page)
			})
			for _, path := range []string{"/ui/", "/ui/notices", "/ui/dead", "/ui/routes", "/ui/doctor"} {
				get(path)
			}
			end()
			if !strings.Contains(out.String(), "interrupted") {
				t.Errorf("the output does not mention the interruption:\n%s", out.String())
			}
		})
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(limit) {
			t.Fatalf("not within 30s: %s", what)
		}
		time.Sleep(20 * time.Millisecond) // sleep: polls until the limit
	}
}

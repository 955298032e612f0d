package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"notifier/internal/testkit"
)

func TestRunShowsEachOutcome(t *testing.T) {
	for name, emulated := range map[string]bool{"redis-server or emulated": false, "emulated": true} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := runDemo(context.Background(), DemoOptions{Stdout: &out, Emulated: emulated, Version: "test"}); err != nil {
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
	out := &written{}
	done := make(chan error, 1)
	go func() { done <- runDemo(ctx, DemoOptions{Stdout: out, Emulated: true, Version: "test"}) }()
	testkit.Until(t, "the first attempt", func() bool { return out.has("after scheduling") })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// startKeep runs keepDemo. get returns a page, and end interrupts the demonstration.
func startKeep(t *testing.T, emulated bool) (out *written, get func(path string) string, end func()) {
	t.Helper()
	out = &written{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- keepDemo(ctx, DemoOptions{Stdout: out, Emulated: emulated, Version: "test"}) }()
	address := ""
	testkit.Until(t, "the address", func() bool {
		address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(out.text())
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
			out, get, end := startKeep(t, emulated)
			testkit.Until(t, "deliveries and failures", func() bool {
				page := get("/metrics")
				return regexp.MustCompile(`notifier_attempts_total\{outcome="delivered",route="pay"\} [1-9]`).MatchString(page) &&
					regexp.MustCompile(`notifier_attempts_total\{outcome="retry",route="refund"\} [1-9]`).MatchString(page)
			})
			for _, path := range []string{"/ui/", "/ui/notices", "/ui/dead", "/ui/routes", "/ui/doctor"} {
				get(path)
			}
			end()
			if !out.has("interrupted") {
				t.Errorf("the output does not mention the interruption:\n%s", out.text())
			}
		})
	}
}

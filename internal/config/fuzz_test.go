package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/route"
)

// FuzzEnvironment loads arbitrary environments. Load returns either a configuration that can be
// served, or errors that name variables. Neither contains a secret.
func FuzzEnvironment(f *testing.F) {
	for _, s := range []string{"ROUTES=a,b\nROUTE_A_PREFIX=x", "REDIS_URL=redis://u:" + hidden + "@h:1/0", "ROUTE_ORDERS_SECRET=" + secret,
		"ROUTE_ORDERS_RETRY=1s,,2s",
		"CLIENTS=a\nCLIENT_A_ROLE=read\nCLIENT_A_TOKEN=" + token + "\nLISTEN=:1", "ROUTE_ORDERS_TARGET=list:x\nROUTE_ORDERS_ACK=report",
		"KEY=" + hidden, "CONCURRENCY=9999999999999999999",
		"ROUTE_ORDERS_HEADERS=A=b,C=" + hidden, "ROUTE_ORDERS_ALLOW=10.0.0.0/8,*.x,::/0", "GRACE=-1ms", "MAX_BODY=1e9MiB",
		"ROUTE_ORDERS_RATE=1/0s", "REDIS_MODE=cluster",
		"SHARDS=0", "NAMESPACE={x}", "ROUTE_ORDERS_JITTER=NaN", "TAKEOVER=lease", "RETENTION=0", "REDIS_URL_FILE=/run/url", "X", "=",
		"ROUTE__PREFIX=1", "ROUTE_ORDERS_PREFIX=notifier",
		"ROUTE_ORDERS_TARGET=http://u:" + hidden + "@h/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hangs := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("hangs: %q", text)) })
		defer hangs.Stop()
		env := base()
		shown := "" // text that the fuzzer produced, which is not a secret
		for line := range strings.Lines(text) {
			name, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "=")
			if !ok || strings.ContainsAny(line, "\x00") {
				continue
			}
			env["NOTIFIER_"+name] = value
			shown += name
		}
		c, err := load(env)
		var said string
		if err != nil {
			var list Errors
			if !errors.As(err, &list) || len(list) == 0 {
				t.Fatalf("not a list of problems: %v", err)
			}
			said = err.Error()
		} else {
			said = strings.Join(Describe(c), "\n")
			usable(t, c)
		}
		if strings.Contains(said, hidden) && !strings.Contains(shown, hidden) && secretPlace(env) {
			t.Errorf("a secret is shown: %s", said)
		}
	})
}

// secretPlace reports whether hidden is only in places for secrets.
func secretPlace(env map[string]string) bool {
	for name, value := range env {
		if !strings.Contains(value, hidden) {
			continue
		}
		switch {
		case strings.HasSuffix(name, "_SECRET"), strings.HasSuffix(name, "_TOKEN"), name == "NOTIFIER_KEY", name == "NOTIFIER_SEAL_KEYS":
		default:
			return false
		}
	}
	return true
}

// usable checks the assumptions of the rest of the program.
func usable(t *testing.T, c *Config) {
	t.Helper()
	if _, err := route.NewTable(c.Routes); err != nil {
		t.Errorf("the routes are not a valid table: %v", err)
	}
	if c.Concurrency < 1 || c.Grace < 0 || c.MaxBody < 1 || c.ShutdownTimeout <= 0 || c.Retention < 0 || c.Retain < 0 || c.Takeover < 0 {
		t.Errorf("%+v", c)
	}
	for _, r := range c.Routes {
		if r.Timeout <= 0 || r.Lease() <= r.Timeout || r.Concurrency < 1 || r.HostConcurrency < 0 || !(r.Jitter >= 0 && r.Jitter <= 0.5) ||
			!(r.Rate >= 0 && r.Rate < 1e9) {
			t.Errorf("%+v", r)
		}
		for _, d := range r.Ladder {
			if d < 0 || d > 366*24*time.Hour {
				t.Errorf("a step of %s", d)
			}
		}
	}
}

package app_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"
	"go.uber.org/zap/zaptest"

	"notifier/internal/app"
	"notifier/internal/config"
	"notifier/internal/testkit"
)

func metricsConfig(t *testing.T, address string) *config.Config {
	t.Helper()
	env := map[string]string{
		"NOTIFIER_REDIS_URL": testkit.StartRedis(t).URL(), "NOTIFIER_LISTEN": "127.0.0.1:0", "NOTIFIER_METRICS_LISTEN": address,
		"NOTIFIER_CLIENTS": "shop", "NOTIFIER_CLIENT_SHOP_TOKEN": "a-token-of-the-tests-0123456789abc", "NOTIFIER_CLIENT_SHOP_PREFIX": "shop",
		"NOTIFIER_CLIENT_SHOP_ROLE": "read",
		"NOTIFIER_ROUTES":           "log", "NOTIFIER_ROUTE_LOG_PREFIX": "shop", "NOTIFIER_ROUTE_LOG_TARGET": "log",
	}
	c, err := config.Load(envconfig.MapLookuper(env), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// With clients configured there was no address that Prometheus could scrape
// without a token that may read everything.
func TestMetricsHaveAnAddressOfTheirOwn(t *testing.T) {
	p, err := app.New(app.Options{Config: metricsConfig(t, "127.0.0.1:0"), Version: "v1.2.3", Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, address string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	if status, page := ask("GET", p.MetricsAddr()+"/metrics"); status != 200 || !strings.Contains(page, "notifier_attempts_total") {
		t.Errorf("%d: %.200s", status, page)
	}
	for _, path := range []string{"/", "/v1/notices", "/v1/stats", "/readyz", "/metrics/"} {
		if status, page := ask("GET", p.MetricsAddr()+path); status != 404 || !strings.Contains(page, "NOTIFIER_LISTEN") {
			t.Errorf("%s: %d %s", path, status, page)
		}
	}
	if status, _ := ask("POST", p.MetricsAddr()+"/metrics"); status == 200 {
		t.Error("POST /metrics is served")
	}
	if status, _ := ask("GET", p.Addr()+"/metrics"); status != 401 {
		t.Errorf("the API's /metrics without a token: %d, want 401 as before", status)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", p.MetricsAddr()); err == nil {
		t.Error("the address is still served after the stop")
	}
}

// An address in use is reported at the start, and the API's address is released.
func TestMetricsAddressThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := metricsConfig(t, l.Addr().String())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = app.New(app.Options{Config: c, Logger: zaptest.NewLogger(t), Listener: free})
	if err == nil || !strings.Contains(err.Error(), "NOTIFIER_METRICS_LISTEN") {
		t.Fatalf("%v", err)
	}
	if _, err := free.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the API's address is still held: %v", err)
	}
}

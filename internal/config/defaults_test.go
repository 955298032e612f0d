package config

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// lines is the environment with changes, one a line.
func lines(changes string) map[string]string { return with(strings.Split(changes, "\n")...) }

// withDefaults adds three routes with other targets to the route orders.
func withDefaults(more string) map[string]string {
	return lines("ROUTES=orders,jobs,lines,plain\nROUTE_JOBS_PREFIX=app2\nROUTE_JOBS_TARGET=list:jobs\nROUTE_LINES_PREFIX=app3\n" +
		"ROUTE_LINES_TARGET=log\nROUTE_PLAIN_PREFIX=app4\nROUTE_PLAIN_TARGET=https://plain.example/hook\n" + more)
}

func TestRoutesGetDefaults(t *testing.T) {
	c, err := load(withDefaults("ROUTE_DEFAULT_RETRY=1m,2m\nROUTE_DEFAULT_JITTER=0.2\nROUTE_DEFAULT_TIMEOUT=3s\nROUTE_DEFAULT_ACK=body:ok\n" +
		"ROUTE_DEFAULT_CONCURRENCY=9\nROUTE_DEFAULT_HOST_CONCURRENCY=4\nROUTE_DEFAULT_HTTPS_ONLY=true\nROUTE_DEFAULT_HTTP=1.1\n" +
		"ROUTE_DEFAULT_TLS=compatible\nROUTE_ORDERS_RETRY=alipay\nROUTE_ORDERS_CONCURRENCY=70\nROUTE_JOBS_JITTER=0"))
	if err != nil {
		t.Fatal(err)
	}
	orders, jobs, logged, plain := c.Routes[0], c.Routes[1], c.Routes[2], c.Routes[3]
	if plain.Ladder.String() != "1m,2m" || plain.Jitter != 0.2 || plain.Timeout != 3*time.Second || plain.Ack.String() != "body:ok" ||
		plain.Concurrency != 9 || plain.HostConcurrency != 4 || !plain.HTTPSOnly || !plain.HTTP1 || !plain.TLSCompatible {
		t.Errorf("plain: %+v", plain)
	}
	preset := route.FindPreset("alipay")
	if orders.Ladder.String() != preset.Ladder.String() || orders.Ack.String() != preset.Ack.String() ||
		orders.Timeout != preset.Timeout {
		t.Errorf("the defaults change a route's own preset: %+v", orders)
	}
	if orders.Concurrency != 70 || orders.HostConcurrency != 4 || !orders.HTTPSOnly {
		t.Errorf("orders: %+v", orders)
	}
	if jobs.Jitter != 0 || jobs.Concurrency != 9 || jobs.HTTPSOnly || jobs.HTTP1 || jobs.TLSCompatible || jobs.Ack.Kind != route.Ack2xx {
		t.Errorf("jobs: %+v", jobs)
	}
	if logged.Ladder.String() != "1m,2m" || logged.Timeout != 3*time.Second || logged.HTTPSOnly {
		t.Errorf("logged: %+v", logged)
	}
}

func TestDefaultsMayBeAPreset(t *testing.T) {
	c, err := load(withDefaults("ROUTE_DEFAULT_RETRY=wechat\nROUTE_ORDERS_RETRY=1m"))
	if err != nil {
		t.Fatal(err)
	}
	preset := route.FindPreset("wechat")
	plain := c.Routes[3]
	if plain.Ladder.String() != preset.Ladder.String() || plain.Ack.String() != preset.Ack.String() || plain.Timeout != preset.Timeout {
		t.Errorf("plain: %+v", plain)
	}
	if orders := c.Routes[0]; orders.Ladder.String() != (notice.Ladder{time.Minute}).String() || orders.Ack.Kind != route.Ack2xx {
		t.Errorf("orders: %+v", orders)
	}
}

// A default that waits for a consumer's report is for lists and streams only.
func TestDefaultReportIsForConsumers(t *testing.T) {
	c, err := load(withDefaults("ROUTE_DEFAULT_ACK=report"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []route.AckKind{route.Ack2xx, route.AckReport, route.Ack2xx, route.Ack2xx} {
		if got := c.Routes[i].Ack.Kind; got != want {
			t.Errorf("route %s: %v, want %v", c.Routes[i].Name, got, want)
		}
	}
}

func TestWrongDefaultsAreReportedOnce(t *testing.T) {
	for set, want := range map[string]string{
		"ROUTE_DEFAULT_RETRY=often":       "NOTIFIER_ROUTE_DEFAULT_RETRY=\"often\": ",
		"ROUTE_DEFAULT_JITTER=2":          "NOTIFIER_ROUTE_DEFAULT_JITTER=\"2\": want a share from 0 to 0.5",
		"ROUTE_DEFAULT_TIMEOUT=1h":        "NOTIFIER_ROUTE_DEFAULT_TIMEOUT=\"1h\": want a duration from 1ms to 10m",
		"ROUTE_DEFAULT_ACK=yes":           "NOTIFIER_ROUTE_DEFAULT_ACK=\"yes\": ",
		"ROUTE_DEFAULT_CONCURRENCY=0":     "NOTIFIER_ROUTE_DEFAULT_CONCURRENCY=\"0\": want a whole number",
		"ROUTE_DEFAULT_HTTPS_ONLY=maybe":  "NOTIFIER_ROUTE_DEFAULT_HTTPS_ONLY=\"maybe\": want true or false",
		"ROUTE_DEFAULT_TLS=old":           "NOTIFIER_ROUTE_DEFAULT_TLS=\"old\": want compatible",
		"ROUTE_DEFAULT_SECRET=x":          "NOTIFIER_ROUTE_DEFAULT_SECRET: is not known",
		"ROUTE_DEFAULT_PREFIX=x":          "such as NOTIFIER_ROUTE_DEFAULT_RETRY, or set it for each route",
		"ROUTES=orders,default":           "the name default is reserved: NOTIFIER_ROUTE_DEFAULT_… are the defaults of all routes",
		"ROUTES=orders,or ders\nGRACE=x":  "NOTIFIER_GRACE",
		"ROUTES=,,\nROUTE_ORDERS_ADOPT=x": "NOTIFIER_ROUTES: is missing",
	} {
		_, err := load(lines(set))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), want) != 1 {
			t.Errorf("%q: want %q once in\n%v", set, want, err)
		}
	}
	_, err := load(lines("ROUTE_DEFAULT_HTTPS_ONLY=true\nROUTE_ORDERS_TARGET=http://shop.example/hook"))
	if err == nil || !strings.Contains(err.Error(), "although NOTIFIER_ROUTE_DEFAULT_HTTPS_ONLY is set") {
		t.Errorf("%v", err)
	}
}

// Regression test: a wrong name in NOTIFIER_ROUTES hid the misspelt variables of all other routes.
func TestWrongRouteNameHidesNoOtherProblem(t *testing.T) {
	_, err := load(lines("ROUTES=orders,bad name\nROUTE_ORDERS_TIMOUT=3s\nROUTE_BAD_NAME_PREFIX=x"))
	if err == nil || !strings.Contains(err.Error(), "did you mean NOTIFIER_ROUTE_ORDERS_TIMEOUT?") ||
		!strings.Contains(err.Error(), "\"bad name\" is not a valid name") || strings.Contains(err.Error(), "BAD_NAME_PREFIX") {
		t.Errorf("%v", err)
	}
}

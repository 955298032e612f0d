package cli

import (
	"strings"
	"testing"
)

func TestRoutesPrintsLadders(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.env = environ
	out, _ := d.run(0, "routes")
	contains(t, out, "9 retries over 25h13m15s", "+15h", "unsigned")
	if n := strings.Count(out, "\n"); n != 2 {
		t.Errorf("%d lines for one route:\n%s", n, out)
	}
	out, _ = d.run(0, "routes", "orders")
	contains(t, out, "FROM THE FIRST", "+15h", "25h13m15s", "unsigned")
	out, _ = d.run(0, "routes", "orders", "--json")
	contains(t, out, `"total": "25h13m15s"`)
}

func TestRoutesPrintsSignaturesAndJitter(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const orders, jobs = "NOTIFIER_ROUTE_ORDERS_", "NOTIFIER_ROUTE_JOBS_"
	d.env = []string{"NOTIFIER_ROUTES=orders,jobs", orders + "PREFIX=app1:orders", orders + "TARGET=notice", orders + "JITTER=0.1",
		orders + "SIGN=standard,github", orders + "SECRET=" + secret + "," + secret[:len(secret)-4] + "QUJD",
		jobs + "PREFIX=app1:jobs", jobs + "TARGET=log", jobs + "RETRY=1s"}
	out, _ := d.run(0, "routes", "jobs", "orders")
	if contains(t, out, "each step ± 10 %, signed by standard+github, per host, 2 secrets\n"); strings.Index(out, "route jobs") != 0 ||
		!strings.Contains(out, "\n\nroute orders: app1:orders to notice") {
		t.Errorf("want jobs, a blank line, orders:\n%s", out)
	}
	out, _ = d.run(0, "routes", "orders", "--json")
	contains(t, out, `"sign_per": "host"`, `"secrets": 2`, `"github"`, `"jitter": 0.1`)
}

func TestRoutesErrors(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	for _, c := range []struct {
		environ []string
		args    []string
		says    string
	}{
		{environ, []string{"nosuch"}, `no route is named "nosuch"`},
		{nil, nil, "NOTIFIER_ROUTES"},
		{append([]string{"NOTIFIER_ROUTES=orders,more", "NOTIFIER_ROUTE_MORE_PREFIX=app1:orders", "NOTIFIER_ROUTE_MORE_TARGET=log"},
			environ[1:]...), nil, "app1:orders"},
	} {
		d.env = c.environ
		_, errs := d.run(2, append([]string{"routes"}, c.args...)...)
		contains(t, errs, c.says)
	}
}

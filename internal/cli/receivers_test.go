package cli

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"notifier/internal/fleet"
)

func TestReceiverCommands(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.engine.Tell(fleet.Figures{Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "busy.example:443", InFlight: 3, Breaker: "open"}}})
	const unknown = "no attempt for shop.example failed within 48 hours, so there are no figures of it: check the name"
	for _, c := range []struct {
		line      string
		code      int
		out, errs string
	}{
		{"pause --host shop.example", 0, "shop.example is paused\n", unknown},
		{"pause --audience m17 --until 2030-01-01T00:00:00Z --prefix app1", 0, "audience m17 is paused until 2030-01-01T00:00:00.000Z\n", ""},
		{"limit --host a.example --rate 300/m", 0, "a.example is limited: rate 5/s, concurrency -\n", ""},
		{"limit --host a.example --concurrency 2", 0, "a.example is limited: rate -, concurrency 2\n", ""},
		{"limit --host a.example --rate 5/s --concurrency 2 --json", 0, `"concurrency": 2`, ""},
		{"limit", 2, "", "want --host"},
		{"limit --host a/b", 2, "", "--host"},
		{"limit --host a.example --rate fast", 2, "", "--rate: want a rate such as 5/s"},
		{"pause", 2, "", "want ROUTE, or --host, --audience or both"},
		{"pause jobs --host a.example", 2, "", "want ROUTE, or --host, --audience or both"},
		{"resume --host a.example --audience m17", 0, "a.example audience m17 was not paused\n", ""},
		{"pause --audience m17 --over 1h", 2, "", "--over: needs until"},
		{"pause none", 1, "", "404"},
		{"resume --audience a/b", 2, "", "--audience"},
		{"receivers --host a/b", 2, "", "--host"},
	} {
		out, errs := d.run(c.code, strings.Fields(c.line)...)
		if !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: %s%s; want %q and %q", c.line, out, errs, c.out, c.errs)
		}
	}

	if _, errs := d.run(0, "resume", "--audience", "m17"); !strings.Contains(errs,
		"its notices under app1 are paused: notifier resume --audience m17 --prefix app1\n") {
		t.Errorf("a pause under a prefix is not named: %s", errs)
	}

	out, errs := d.run(0, "receivers")
	var rows []string
	for line := range strings.Lines(out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	if want := []string{"RECEIVER PREFIX PAUSED HELD IN FLIGHT ATTEMPTS FAILED FAILING SINCE REASON WAITING BREAKER RATE CONCURRENCY",
		"busy.example:443 - - - 3 - - - - - open - -", "a.example - - - - - - - - - - 5/s 2",
		"audience m17 app1 until 2030-01-01T00:00:00.000Z - - - - - - - - - -",
		"shop.example - paused - - - - - - - - - -"}; !slices.Equal(rows, want) || errs != "" {
		t.Errorf("%q, %s; want %q", rows, errs, want)
	}
	out, errs = d.run(0, "receivers", "--limit", "3")
	if contains(t, errs, "there are more: --cursor "); strings.Contains(out, "shop.example") {
		t.Errorf("more than three: %s", out)
	}
	if out, errs = d.run(0, "receivers", "--limit", "3", "--all"); errs != "" || !strings.Contains(out, "shop.example") {
		t.Errorf("not all: %s%s", out, errs)
	}
	if out, _ = d.run(0, strings.Fields("receivers --state limited --contains EXAMPLE")...); strings.Count(out, "\n") != 2 {
		t.Errorf("not a.example alone: %s", out)
	}
	d.run(2, "receivers", "--state", "broken")
	d.run(1, "receivers", "--route", "none")
	out, _ = d.run(0, "receivers", "--host", "a.example", "--json")
	if contains(t, out, `"rate": "5/s"`); strings.Contains(out, "m17") {
		t.Errorf("another receiver is shown: %s", out)
	}

	for _, c := range [][2]string{{"resume --host shop.example --over 30m", "shop.example is resumed\n"},
		{"resume --host shop.example", "shop.example was not paused\n"}, {"resume --audience m17 --prefix app1", "audience m17 is resumed\n"},
		{"limit --host a.example", "a.example has the routes' limits\n"}} {
		if out, _ := d.run(0, strings.Fields(c[0])...); out != c[1] {
			t.Errorf("%s: %q, want %q", c[0], out, c[1])
		}
	}
	out, _ = d.run(0, "receivers")
	for _, gone := range []string{"m17", "shop.example", "a.example"} {
		if strings.Contains(out, gone) {
			t.Errorf("%s is still listed: %s", gone, out)
		}
	}
}

func TestReceiversShowFailures(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.wrap = answering(`{"items":[{"host":"shop.example:443","attempts":20,"failed":7,"held":4,"paused":true,
		"failing_since":"2026-12-01T00:00:00Z","status":503,"reason":"status_5xx","waiting":9}],"total":2,"cursor":"next"}`)
	out, errs := d.run(0, "receivers")
	contains(t, strings.Join(strings.Fields(out), " "), "shop.example:443 - paused 4 - 20 7 2026-12-01T00:00:00.000Z 503 status_5xx 9 - - -")
	contains(t, errs, "there are more: --cursor next, or --all")
}

func TestSecretPrintsSchemes(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const secrets = `"secrets":["whsec_new","whsec_old"],"schemes":[`
	for _, c := range []struct{ answer, want string }{
		{`{` + secrets + `{"scheme":"stripe","headers":["stripe-signature"],"signed":"time.body","algorithm":"HMAC"},
			{"scheme":"github","headers":["x-hub-signature-256"],"signed":"body","algorithm":"HMAC","warning":"no protection from replays"}]}`,
			"stripe\n  headers    stripe-signature\n  signed     time.body\n  algorithm  HMAC\n" +
				"  key        whsec_new\n  key        whsec_old\n\n" +
				"github\n  headers    x-hub-signature-256\n  signed     body\n  algorithm  HMAC\n  note       no protection from replays\n" +
				"  key        whsec_new\n"},
		{`{"secrets":[],"schemes":[{"scheme":"alipay","signed":"form","algorithm":"MD5","keys":[]}]}`,
			"alipay\n  signed     form\n  algorithm  MD5\n  key        the route's secret, see the configuration\n"},
		{`{"secrets":[],"schemes":[{"scheme":"jws","headers":["x-jws"],"signed":"body","algorithm":"EdDSA","keys":[
			{"id":"k1","signs":true,"public_key":"BEGIN\nabc\nEND\n","standard":"whpk_1"},
			{"id":"k2","public_key":"BEGIN\n","certificate":"CERT\n\u001b[2J"}]}]}`,
			"jws\n  headers    x-jws\n  signed     body\n  algorithm  EdDSA\n" +
				"  key        k1 (signs now)\n  whpk_1\n  BEGIN\n  abc\n  END\n" +
				"  key        k2 (published, does not sign)\n  CERT\n  \ufffd[2J\n"},
	} {
		d.wrap = answering(c.answer)
		if out, errs := d.run(0, "secret", "orders"); out != c.want || errs != "" {
			t.Errorf("%s%s; want\n%s", out, errs, c.want)
		}
	}
	d.env = []string{"NOTIFIER_URL=localhost:8080"}
	_, errs := d.run(2, "secret", "orders")
	contains(t, errs, "is not valid")
}

// answering is a service that gives one answer to every call.
func answering(text string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
}

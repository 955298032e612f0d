package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

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

package callback

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/transport"
)

func ack(t testing.TB, s string) *route.Ack {
	t.Helper()
	a, err := route.ParseAck(s)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

// TestEveryStatus checks the result of every status under every rule.
func TestEveryStatus(t *testing.T) {
	t.Parallel()
	rules := map[string]*route.Ack{"2xx": ack(t, "2xx"), "status": ack(t, "status:200,204"), "body": ack(t, "body:success"), "json": ack(t,
		"json:code=0")}
	for code := 100; code <= 599; code++ {
		for name, rule := range rules {
			for _, good := range []bool{true, false} {
				body := "no"
				if good {
					body = map[string]string{"json": `{"code":0}`}[name]
					if body == "" {
						body = "success"
					}
				}
				t.Run(fmt.Sprintf("%d_%s_%s_%v", code, http.StatusText(code), name, good), func(t *testing.T) {
					got := resultOf(rule, &facts{status: code, header: http.Header{}, body: []byte(body)})
					o, r := notice.OutcomeRetry, notice.ReasonStatus
					switch {
					case code/100 == 2 && name == "status" && code != 200 && code != 204: // a 2xx that is not in the list
					case code/100 == 2 && (name == "2xx" || name == "status" || good):
						o, r = notice.OutcomeDelivered, ""
					case code/100 == 2:
						r = notice.ReasonAckMismatch
					case code/100 == 3:
						r = notice.ReasonRedirect
					case code == 410:
						o, r = notice.OutcomeDead, notice.ReasonGone
					case code == 423:
						o, r = notice.OutcomeDeferred, notice.ReasonLocked
					case code/100 == 4:
						r = notice.ReasonStatus4xx
					case code/100 == 5:
						r = notice.ReasonStatus5xx
					}
					expect(t, got, o, r)
					if got.Status != code || !strings.Contains(got.Response, body) {
						t.Errorf("%+v", got)
					}
					if r != "" && !slices.Contains(notice.Reasons, r) {
						t.Errorf("%s is not of the closed set", r)
					}
				})
			}
		}
	}
}

func TestReceiverHeadersControlRetries(t *testing.T) {
	t.Parallel()
	now := made
	head := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		f     facts
		ack   string
		o     notice.Outcome
		r     notice.Reason
		after time.Duration
	}{
		"500 abort": {facts{status: 500, header: head("Webhook-Delivery", "abort-message")}, "2xx", notice.OutcomeDead,
			notice.ReasonAborted, 0},
		"400 Abort spelt loosely": {facts{status: 400, header: head("Webhook-Delivery", " Abort-Message ")}, "2xx", notice.OutcomeDead,
			notice.ReasonAborted, 0},
		"302 abort": {facts{status: 302, header: head("Webhook-Delivery", "abort-message")}, "2xx", notice.OutcomeDead,
			notice.ReasonAborted, 0},
		"423 abort": {facts{status: 423, header: head("Webhook-Delivery", "abort-message")}, "2xx", notice.OutcomeDead,
			notice.ReasonAborted, 0},
		"disable is 410": {facts{status: 403, header: head("Webhook-Delivery", "disable")}, "2xx", notice.OutcomeDead,
			notice.ReasonGone, 0},
		"unknown control": {facts{status: 403, header: head("Webhook-Delivery", "later")}, "2xx", notice.OutcomeRetry,
			notice.ReasonStatus4xx, 0},
		"200 abort is delivered": {facts{status: 200, header: head("Webhook-Delivery", "abort-message")}, "2xx", notice.OutcomeDelivered, "",
			0},
		"200 mismatch abort": {facts{status: 200, header: head("Webhook-Delivery", "abort-message")}, "body:ok", notice.OutcomeDead,
			notice.ReasonAborted, 0},
		"429 retry-after": {facts{status: 429, header: head("Retry-After", "120")}, "2xx", notice.OutcomeRetry, notice.ReasonStatus4xx,
			2 * time.Minute},
		"503 retry-after date": {facts{status: 503, now: now, header: head("Retry-After", now.Add(time.Hour).Format(http.TimeFormat))}, "2xx",
			notice.OutcomeRetry, notice.ReasonStatus5xx, time.Hour},
		"301 retry-after": {facts{status: 301, header: head("Retry-After", "7")}, "2xx", notice.OutcomeRetry, notice.ReasonRedirect,
			7 * time.Second},
		"200 mismatch retry-after": {facts{status: 200, header: head("Retry-After", "9"), body: []byte("no")}, "body:ok", notice.OutcomeRetry,
			notice.ReasonAckMismatch, 9 * time.Second},
		"410 ignores retry-after": {facts{status: 410, header: head("Retry-After", "9")}, "2xx", notice.OutcomeDead, notice.ReasonGone, 0},
		"423 default":             {facts{status: 423, header: head()}, "2xx", notice.OutcomeDeferred, notice.ReasonLocked, 5 * time.Second},
		"423 retry-after": {facts{status: 423, header: head("Retry-After", "60")}, "2xx", notice.OutcomeDeferred, notice.ReasonLocked,
			time.Minute},
		"423 for the 100th time": {facts{status: 423, header: head("Retry-After", "60"), locked: 99}, "2xx", notice.OutcomeDeferred,
			notice.ReasonLocked, time.Minute},
		"423 bounded": {facts{status: 423, header: head("Retry-After", "60"), locked: 100}, "2xx", notice.OutcomeRetry,
			notice.ReasonStatus4xx, time.Minute},
		"stopping": {facts{err: errors.New("context canceled"), cancelled: true}, "2xx", notice.OutcomeDeferred,
			notice.ReasonShutdown, 0},
		"answer beats stopping": {facts{status: 200, cancelled: true}, "2xx", notice.OutcomeDelivered, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := resultOf(ack(t, c.ack), &c.f)
			expect(t, got, c.o, c.r)
			if got.After != c.after {
				t.Errorf("after %s, want %s", got.After, c.after)
			}
		})
	}
}

// A status with the rule dead ends the notice with the reason of any other answer with that status. It decides over 423, but not
// over an acknowledgement, nor over an answer that says gone or aborted.
func TestStatusWithRuleEndsNotice(t *testing.T) {
	t.Parallel()
	rules := route.OnStatus{302: route.ActionDead, 404: route.ActionDead, 410: route.ActionDead, 423: route.ActionDead, 503: route.ActionDead}
	later := http.Header{"Retry-After": {"60"}}
	for _, c := range []struct {
		status  int
		header  http.Header
		outcome notice.Outcome
		reason  notice.Reason
	}{
		{404, nil, notice.OutcomeDead, notice.ReasonStatus4xx},
		{302, nil, notice.OutcomeDead, notice.ReasonRedirect},
		{410, nil, notice.OutcomeDead, notice.ReasonGone},
		{423, later, notice.OutcomeDead, notice.ReasonStatus4xx},
		{503, later, notice.OutcomeDead, notice.ReasonStatus5xx},
		{404, http.Header{"Webhook-Delivery": {"disable"}}, notice.OutcomeDead, notice.ReasonGone},
		{200, nil, notice.OutcomeDelivered, ""},
		{400, nil, notice.OutcomeRetry, notice.ReasonStatus4xx},
	} {
		got := resultOf(ack(t, "2xx"), &facts{status: c.status, header: c.header, onStatus: rules})
		if expect(t, got, c.outcome, c.reason); got.After != 0 {
			t.Errorf("%d: after %s", c.status, got.After)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := made
	date := now.Add(-7 * time.Hour) // a receiver whose clock is wrong
	for v, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, " 30 ": 30 * time.Second, "1.5": 1500 * time.Millisecond, "-5": 0, "86400": 24 * time.Hour,
		"86401": 24 * time.Hour, "99999999999999999999999": 24 * time.Hour, "1e999": 24 * time.Hour, "inf": 24 * time.Hour, "-inf": 0, "NaN": 0,
		"soon": 0, "5 seconds": 0, "0x10": 0, "5, 6": 0,
		now.Add(time.Minute).Format(http.TimeFormat):               time.Minute,
		now.Add(time.Minute).Format(time.ANSIC):                    time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):              0,
		now.Add(240 * time.Hour).Format(http.TimeFormat):           24 * time.Hour,
		now.Add(90 * time.Second).Format("Mon, 02 Jan 2006 15:04"): 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {v}}, now); got != want {
			t.Errorf("%q: %s, want %s", v, got, want)
		}
	}
	h := http.Header{"Retry-After": {date.Add(time.Minute).Format(http.TimeFormat)}, "Date": {date.Format(http.TimeFormat)}}
	if got := retryAfter(h, now); got != time.Minute {
		t.Errorf("relative to Date: %s", got)
	}
}

func TestAckMatchesBodies(t *testing.T) {
	t.Parallel()
	big, wechat := strings.Repeat(" ", transport.MaxBody-7)+"success", "xml:return_code=SUCCESS"
	for _, c := range []struct {
		rule, body string
		ok         bool
	}{
		{"body:success", "success", true}, {"body:success", " \r\nsuccess\n\t", true}, {"body:success", "\ufeffsuccess", true},
		{"body:success", "\ufeff success\n", true}, {"body:success", "SUCCESS", false}, {"body:SUCCESS", "success", false},
		{"body:success", "successful", false}, {"body:success", "", false}, {"body:success", "<html>success</html>", false},
		{"body:success", `"success"`, false}, {"body:success", "suc cess", false}, {"body:success", big, true},
		{"json:code=SUCCESS", `{"code":"SUCCESS","message":"ok"}`, true}, {"json:code=SUCCESS", `{"code":"FAIL"}`, false},
		{"json:code=SUCCESS", `{"Code":"SUCCESS"}`, false}, {"json:code=SUCCESS", `{}`, false}, {"json:code=SUCCESS", `[]`, false},
		{"json:code=SUCCESS", ``, false}, {"json:code=SUCCESS", `SUCCESS`, false}, {"json:code=SUCCESS", `{"code":"SUCCESS"`, false},
		{"json:code=SUCCESS", `{"code":"SUCCESS"}{"code":"FAIL"}`, false}, {"json:code=SUCCESS", "\ufeff{\"code\":\"SUCCESS\"}\n", true},
		{"json:code=0", `{"code":0}`, true}, {"json:code=0", `{"code":"0"}`, true}, {"json:code=0", `{"code":0.0}`, false},
		{"json:code=0", `{"code":null}`, false}, {"json:ok=true", `{"ok":true}`, true}, {"json:ok=null", `{"ok":null}`, true},
		{"json:data.code=0", `{"data":{"code":0}}`, true}, {"json:data.code=0", `{"data":[{"code":0}]}`, false},
		{"json:data.0.code=0", `{"data":[{"code":0}]}`, true}, {"json:data.1.code=0", `{"data":[{"code":0}]}`, false},
		{"json:code=x", `{"code":{"code":"x"}}`, false}, {"json:code=12345678901234567890", `{"code":12345678901234567890}`, true},
		{"json:code=a=b", `{"code":"a=b"}`, true},
		{"body:success|SUCCESS|ok", "SUCCESS\n", true}, {"body:success|SUCCESS|ok", "ok", true}, {"body:success|ok", "Ok", false},
		{"body:success|ok", "success|ok", false}, {"json:errcode=0|40001", `{"errcode":40001}`, true}, {"json:errcode=0|1", `{"errcode":2}`, false},
		{wechat, "<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>", true},
		{wechat, "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<xml>\n <return_code>\n SUCCESS </return_code>\n</xml>\n<!-- end -->", true},
		{wechat, `<any a="1"><other><return_code>FAIL</return_code></other><return_code>SUC<![CDATA[CESS]]></return_code></any>`, true},
		{wechat, "<xml><return_code>SUCCES&#83;</return_code></xml>", true},
		{wechat, "<xml><return_code>FAIL</return_code></xml>", false},
		{wechat, "<xml><data><return_code>SUCCESS</return_code></data></xml>", false},
		{wechat, "<return_code>SUCCESS</return_code>", false}, {wechat, "<xml><return_code>SUCCESS</return_code>", false},
		{wechat, "SUCCESS", false},
		{wechat, "<xml><return_code>SUCCESS</return_code></xml><xml/>", false},
		{wechat, "<xml><return_code>SUCCESS</return_code></xml>FAIL", false},
		{wechat, "<xml><return_code>SUCCESS</return_code><return_code>FAIL</return_code></xml>", false},
		{wechat, "<xml><return_code>SUCCESS<b/></return_code></xml>", false}, {wechat, "<xml><return_code/></xml>", false}, {wechat, "", false},
		{wechat, `<!DOCTYPE xml [<!ENTITY a "SUCCESS">]><xml><return_code>&a;</return_code></xml>`, false},
		{wechat, `<!DOCTYPE xml><xml><return_code>SUCCESS</return_code></xml>`, false},
		{wechat, "<xml><return_code>&a;</return_code></xml>", false},
		{wechat, `<?xml version="1.0" encoding="GBK"?><xml><return_code>SUCCESS</return_code></xml>`, false},
		{wechat, "<xml><return_code>SUCCESS</return_code><m>\xb3\xc9</m></xml>", false},
		{wechat, strings.Repeat("<a>", transport.MaxBody/3), false}, {"xml:code=0|1", "<r><code>1</code></r>", true},
	} {
		want, reason := notice.OutcomeRetry, notice.ReasonAckMismatch
		if c.ok {
			want, reason = notice.OutcomeDelivered, ""
		}
		t.Run(fmt.Sprintf("%s %.30q", c.rule, c.body), func(t *testing.T) {
			expect(t, resultOf(ack(t, c.rule), &facts{status: 200, body: []byte(c.body)}), want, notice.Reason(reason))
		})
	}
}

func TestLargeAndEncodedBodies(t *testing.T) {
	t.Parallel()
	zip := func(s string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
		return b.Bytes()
	}
	gz := http.Header{"Content-Encoding": {"gzip"}}
	body := ack(t, "body:success")
	expect(t, resultOf(body, &facts{status: 200, header: gz, body: zip("success")}), notice.OutcomeDelivered, "")
	expect(t, resultOf(body, &facts{status: 200, header: gz, body: []byte("success")}), notice.OutcomeDelivered, "")
	expect(t, resultOf(body, &facts{status: 200, header: gz, body: zip(strings.Repeat("0", 4<<20))}), notice.OutcomeRetry,
		notice.ReasonTooLarge)
	expect(t, resultOf(body, &facts{status: 200, body: make([]byte, transport.MaxBody), more: true}), notice.OutcomeRetry,
		notice.ReasonTooLarge)
	got := resultOf(ack(t, "2xx"), &facts{status: 200, header: gz, body: zip(strings.Repeat("0", 4<<20)), more: true})
	expect(t, got, notice.OutcomeDelivered, "")
	if len(got.Response) > notice.KeptResponse {
		t.Errorf("%d bytes are kept", len(got.Response))
	}
}

func TestRedirectNamesItsTarget(t *testing.T) {
	t.Parallel()
	base, _ := url.Parse("https://shop.example/a/notify?x=1")
	for loc, want := range map[string]string{
		"https://www.shop.example/notify": "https://www.shop.example/notify", "/login": "https://shop.example/login",
		"other": "https://shop.example/a/other", "//cdn.example/x": "https://cdn.example/x", "": "answered 302",
		"https://u:hunter2@h/?token=hunter2": "https://•••@h/?token=•••", "http://[::bad": "an invalid address",
	} {
		h := http.Header{}
		h.Set("Location", loc)
		got := resultOf(ack(t, "2xx"), &facts{status: 302, header: h, target: base})
		if !strings.Contains(got.Response, want) || strings.Contains(got.Response, "hunter2") {
			t.Errorf("%q: %q, want %q", loc, got.Response, want)
		}
	}
	// The address of a route is for operators only, and producers see the hint.
	for loc, want := range map[string]string{"other": "redirected to other;", "?a=1": "redirected to ?a=1;",
		"/login": "https://shop.example/login"} {
		got := resultOf(ack(t, "2xx"), &facts{status: 302, header: http.Header{"Location": {loc}}, target: base, fixed: true})
		if !strings.Contains(got.Response, want) || strings.Contains(got.Response, "/a/") {
			t.Errorf("of a route's address, %q: %q, want %q", loc, got.Response, want)
		}
	}
}

// FuzzResult checks that the result is one of the closed set, and bounded, for any answer.
func FuzzResult(f *testing.F) {
	f.Add(200, "2xx", "success", "", "", "")
	f.Add(200, "body:success", " success", "", "", "gzip")
	f.Add(503, "json:a.b=0", `{"a":{"b":0}}`, "120", "abort-message", "")
	f.Add(302, "status:200", "\xff", "Sat, 21 Nov 2026 12:00:00 GMT", "", "x-gzip")
	f.Fuzz(func(t *testing.T, status int, rule, body, after, delivery, encoding string) {
		a, err := route.ParseAck(rule)
		if err != nil || status < 0 || len(body) > transport.MaxBody {
			return
		}
		h := http.Header{"Retry-After": {after}, "Webhook-Delivery": {delivery}, "Content-Encoding": {encoding}, "Location": {body}}
		got := resultOf(&a, &facts{status: status, header: h, body: []byte(body), now: made})
		if !slices.Contains(notice.Outcomes, got.Outcome) || (got.Outcome == notice.OutcomeDelivered) != (got.Reason == "") ||
			got.Reason != "" && !slices.Contains(notice.Reasons, got.Reason) {
			t.Errorf("%+v", got)
		}
		if got.After < 0 || got.After > maxRetryAfter || len(got.Response) > notice.KeptResponse || !utf8.ValidString(got.Response) {
			t.Errorf("after %s, %d bytes: %q", got.After, len(got.Response), got.Response)
		}
		if got.Outcome == notice.OutcomeDelivered && (status < 200 || status > 299) {
			t.Errorf("status %d counted as a delivery", status)
		}
	})
}

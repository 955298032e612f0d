//go:build !quick

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/sethvargo/go-envconfig"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"notifier/internal/app"
	"notifier/internal/config"
	"notifier/internal/testkit"
)

// limit is the maximum time of a step, also on a busy machine.
const limit = 40 * time.Second

// chrome returns the path of the browser.
func chrome(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium is on PATH; scripts/deps.sh installs it")
	return ""
}

// service is a service with a receiver.
type service struct {
	t       testing.TB
	redis   *testkit.Redis
	address string
	token   string           // of the client that calls the API, if any is configured
	shop    *httptest.Server // answers by the path: /ok, /down (500), /gone (410)
}

// start runs a service; settings are names and values in turn. Without clients its
// pages are open to this machine.
func start(t testing.TB, settings ...string) *service {
	t.Helper()
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case strings.HasPrefix(r.URL.Path, "/down"):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":"the database is unavailable","page":"<script>document.title='taken'</script>"}`)
		case strings.HasPrefix(r.URL.Path, "/long"):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat("the database is unavailable, ", 20))
		case strings.HasPrefix(r.URL.Path, "/gone"):
			w.WriteHeader(http.StatusGone)
		default:
			_, _ = io.WriteString(w, `{"ok":true}`)
		}
	}))
	t.Cleanup(shop.Close)
	redis := testkit.StartRedis(t)
	env := map[string]string{
		"NOTIFIER_REDIS_URL": redis.URL(), "NOTIFIER_LISTEN": "127.0.0.1:0", "NOTIFIER_INSTANCE": "web-1",
		"NOTIFIER_ROUTES": "payments,refunds,mail", "NOTIFIER_ROUTE_PAYMENTS_PREFIX": "shop:paid", "NOTIFIER_ROUTE_PAYMENTS_TARGET": "notice",
		"NOTIFIER_ROUTE_PAYMENTS_ALLOW": "127.0.0.0/8,localhost", "NOTIFIER_ROUTE_PAYMENTS_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"NOTIFIER_ROUTE_REFUNDS_PREFIX": "shop:refund", "NOTIFIER_ROUTE_REFUNDS_TARGET": "notice",
		"NOTIFIER_ROUTE_REFUNDS_ALLOW": "127.0.0.0/8,localhost", "NOTIFIER_ROUTE_REFUNDS_RETRY": "none",
		"NOTIFIER_ROUTE_MAIL_PREFIX": "shop:mail", "NOTIFIER_ROUTE_MAIL_TARGET": "list:mails",
	}
	for i := 0; i+1 < len(settings); i += 2 {
		env[settings[i]] = settings[i+1]
	}
	c, err := config.Load(envconfig.MapLookuper(env), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := app.New(app.Options{Config: c, Version: "v1.0.0", Logger: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s := &service{t: t, redis: redis, address: "http://" + p.Addr(), shop: shop}
	testkit.Until(t, "the service is ready", func() bool {
		res, err := http.Get(s.address + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return s
}

// keep schedules a notice to a path of the receiver, if the route calls one, and
// waits until it is in a state.
func (s *service) keep(key, path string, delay time.Duration, state string) {
	s.t.Helper()
	n := map[string]any{"key": key, "delay": delay.String(), "body": map[string]any{"order": key, "amount": 12.50, "currency": "EUR"}}
	if path != "" {
		n["url"] = s.shop.URL + path
	}
	body, err := json.Marshal(n)
	if err != nil {
		s.t.Fatal(err)
	}
	var kept struct{}
	s.call(http.MethodPost, "/v1/notices", string(body), &kept)
	s.await(key, state)
}

// call makes a call of the API and reads its answer.
func (s *service) call(method, path, body string, answer any) {
	s.t.Helper()
	var res *http.Response
	testkit.Until(s.t, method+" "+path+" is no 503", func() bool { // a busy machine may keep Redis from answering
		req, err := http.NewRequest(method, s.address+path, strings.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		if s.token != "" {
			req.Header.Set("Authorization", "Bearer "+s.token)
		}
		if res, err = http.DefaultClient.Do(req); err != nil {
			s.t.Fatal(err)
		}
		if res.StatusCode == http.StatusServiceUnavailable {
			_ = res.Body.Close()
		}
		return res.StatusCode != http.StatusServiceUnavailable
	})
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s", method, path, res.Status)
	}
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		s.t.Fatal(err)
	}
}

// state returns the state of a notice.
func (s *service) state(key string) string {
	s.t.Helper()
	var n struct{ State string }
	s.call(http.MethodGet, "/v1/notices/"+key, "", &n)
	return n.State
}

func (s *service) await(key, state string) {
	s.t.Helper()
	testkit.Until(s.t, key+" is "+state, func() bool { return s.state(key) == state })
}

// tab is a page of a browser.
type tab struct {
	t   testing.TB
	ctx context.Context
	s   *service
	// refused: the test expects answers from 400 on, which the browser reports.
	refused bool
}

// browse opens a browser. An error that a page reports fails the test, such as a script that the policy
// forbids.
func browse(t testing.TB, s *service) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chrome(t)), chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", "en-GB"))
	if os.Geteuid() == 0 { // Chromium's sandbox needs a user that is not root
		options = append(options, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx, s: s}
	b.do(chromedp.EmulateViewport(1280, 900))
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("a script failed: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if b.refused && strings.Contains(e.Entry.Text, "Failed to load resource") {
				return
			}
			if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "ERR_INCOMPLETE_CHUNKED_ENCODING") &&
				!strings.Contains(e.Entry.Text, "ERR_CONNECTION") {
				t.Errorf("the browser reports: %s %s", e.Entry.Text, e.Entry.URL)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// do runs steps within the limit.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx); err != nil { // the browser begins without a limit, which would end it
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.text())
	}
}

func (b *tab) open(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.s.address + path)) }

// js is the value of an expression.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	for {
		v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
		switch {
		case err == nil:
			return v
		case !strings.Contains(err.Error(), "Inspected target navigated"):
			b.t.Fatalf("%s: %v", expression, err)
		}
		// The page was left meanwhile; the next one answers.
	}
}

func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body ? document.body.innerText : ''"))
	if err != nil {
		return err.Error()
	}
	return text
}

// sees waits for a text on the page. It also works without JavaScript.
func (b *tab) sees(text string) {
	b.t.Helper()
	testkit.Await(b.t, func() error {
		if said := b.text(); !strings.Contains(said, text) {
			return fmt.Errorf("the page does not say %q; it says %s", text, said)
		}
		return nil
	})
}

// focus moves the focus to an element once it exists. It asks the page and not the browser, whose ids of elements end while
// a page is still being read: an action that found the element before then fails.
func (b *tab) focus(selector string) {
	b.t.Helper()
	testkit.Until(b.t, "the focus on "+selector, func() bool {
		return js[bool](b, fmt.Sprintf("(e => Boolean(e && e.checkVisibility() && (e.focus(), document.activeElement === e)))"+
			"(document.querySelector(%q))", selector))
	})
}

// types presses keys, the first of them on an element.
func (b *tab) types(selector, keys string) {
	b.t.Helper()
	b.focus(selector)
	b.do(chromedp.KeyEvent(keys))
}

// click clicks on an element once it exists. It retries if the element belongs to a page that is just
// being left. After a click on a link or on the button of a form it waits for the page that follows: the texts
// that a test waits for may stand on the page before too, and a Navigate that meets another one is aborted.
func (b *tab) click(selector string) {
	b.t.Helper()
	leads := ""
	testkit.Until(b.t, "a click on "+selector, func() bool {
		if leads = js[string](b, fmt.Sprintf(`(element => {
			if (!element) return "nothing yet";
			const link = element.closest("a[href]:not([download], [target])");
			const within = link && link.href.includes("#") && link.href.split("#")[0] === location.href.split("#")[0];
			const button = element.closest("button:not([type=button], [type=reset])");
			const sends = button && button.form && button.form.target !== "_blank" && !button.form.matches(":invalid");
			window.clicked = Boolean(link ? !within : sends);
			return window.clicked ? "a page" : "";
		})(document.querySelector(%q))`, selector)); leads == "nothing yet" {
			return false
		}
		ctx, cancel := context.WithTimeout(b.ctx, limit)
		defer cancel()
		err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
		if err != nil && !strings.Contains(err.Error(), "node") {
			b.t.Fatalf("a click on %s: %v\n%s", selector, err, b.text())
		}
		return err == nil
	})
	if leads == "a page" {
		b.next()
	}
}

// next waits until the page that set window.clicked is left and the following one is read.
func (b *tab) next() {
	b.t.Helper()
	testkit.Until(b.t, "the next page", func() bool {
		return js[bool](b, `!window.clicked && document.readyState !== "loading"`)
	})
}

// scheme sets the colour scheme.
func (b *tab) scheme(name string) {
	b.t.Helper()
	scheme := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: scheme}); err != nil {
		b.t.Fatal(err)
	}
}

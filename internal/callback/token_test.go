package callback

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// issuer is a token endpoint whose behaviour a test changes.
type issuer struct {
	url    string
	calls  atomic.Int32
	status atomic.Int32 // 0 = it gives tokens token-1, token-2, …
	life   atomic.Int32 // seconds
	asked  atomic.Pointer[url.Values]
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.life.Store(3600)
	i.url = server(t, func(w http.ResponseWriter, r *http.Request) {
		n := i.calls.Add(1)
		_ = r.ParseForm()
		i.asked.Store(&r.PostForm)
		w.Header().Set("Content-Type", "application/json")
		if id, secret, _ := r.BasicAuth(); id != "notifier" || secret != "hunter2hunter2" {
			w.WriteHeader(400)
			return
		}
		if status := i.status.Load(); status != 0 {
			w.WriteHeader(int(status))
			_, _ = fmt.Fprint(w, `{"error":"invalid_client","error_description":"hunter2"}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"bearer","expires_in":%d}`, n, i.life.Load())
	}).URL
	return i
}

func (i *issuer) route(t *testing.T, r *route.Route) *route.Route {
	t.Helper()
	u, err := route.ParseTokenURL(i.url + "/token")
	if err != nil {
		t.Fatal(err)
	}
	r.OAuth2 = &route.OAuth2{TokenURL: u, ClientID: "notifier", ClientSecret: "hunter2hunter2", Scopes: []string{"pay", "read"},
		Audience: "shops"}
	return r
}

// guarded is a receiver that accepts the tokens that valid holds, and echoes the request.
func guarded(t *testing.T) (base string, valid *atomic.Pointer[string], calls *atomic.Int32) {
	t.Helper()
	valid, calls = &atomic.Pointer[string]{}, &atomic.Int32{}
	base = server(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if v := valid.Load(); v != nil && r.Header.Get("Authorization") != "Bearer "+*v {
			w.WriteHeader(401)
		}
		_, _ = fmt.Fprintf(w, "I got %s", r.Header.Get("Authorization"))
	}).URL
	return base, valid, calls
}

func TestCallsCarryOneToken(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	base, _, calls := guarded(t)
	h, r := newHandler(t, Options{}), i.route(t, fixedRoute(base))
	r.HostConcurrency = 0
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			n := testNotice("{}")
			n.Headers = []notice.Header{{Name: "authorization", Value: "Bearer forged"}}
			res := h.Handle(background(t), r, n)
			expect(t, res, notice.OutcomeDelivered, "")
			if strings.Contains(res.Response, "token-") || !strings.Contains(res.Response, "•••") {
				t.Errorf("the record shows the token: %s", res.Response)
			}
		})
	}
	wg.Wait()
	if asked := *i.asked.Load(); i.calls.Load() != 1 || calls.Load() != 30 || asked.Get("grant_type") != "client_credentials" ||
		asked.Get("scope") != "pay read" || asked.Get("audience") != "shops" {
		t.Errorf("%d fetches for %d calls, %v", i.calls.Load(), calls.Load(), asked)
	}
}

// An issuer that is down costs no attempt, an issuer that refuses costs one. Neither is a failure of the
// receiver, which is not called.
func TestIssuerFailureDefersOrRetries(t *testing.T) {
	t.Parallel()
	base, _, calls := guarded(t)
	for status, want := range map[int32]notice.Outcome{500: notice.OutcomeDeferred, 503: notice.OutcomeDeferred, 429: notice.OutcomeDeferred,
		302: notice.OutcomeDeferred, 400: notice.OutcomeRetry, 401: notice.OutcomeRetry, 403: notice.OutcomeRetry} {
		i := newIssuer(t)
		i.status.Store(status)
		res := newHandler(t, Options{}).Handle(background(t), i.route(t, fixedRoute(base)), testNotice("{}"))
		expect(t, res, want, notice.ReasonToken)
		if !res.Unsent || want == notice.OutcomeDeferred && res.After <= 0 || strings.Contains(res.Response, "hunter2") ||
			!strings.Contains(res.Response, fmt.Sprint(status)) {
			t.Errorf("%d: %+v", status, res)
		}
	}
	i := newIssuer(t)
	r := i.route(t, fixedRoute(base))
	r.OAuth2.TokenURL = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	expect(t, newHandler(t, Options{}).Handle(background(t), r, testNotice("{}")), notice.OutcomeDeferred, notice.ReasonToken)
	if notice.HeldBy(notice.ReasonToken) != notice.HeldToken {
		t.Error("the lateness does not name the cause")
	}
	if calls.Load() != 0 {
		t.Errorf("the receiver was called %d times", calls.Load())
	}
}

// The fetch counts towards the route's timeout, and calls that wait for it end with it.
func TestTokenFetchCountsForTheTimeout(t *testing.T) {
	t.Parallel()
	base, _, calls := guarded(t)
	hangs := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the caller has gone
		<-r.Context().Done()
	}).URL
	r := (&issuer{url: hangs}).route(t, fixedRoute(base))
	r.Timeout, r.HostConcurrency = 300*time.Millisecond, 0
	h := newHandler(t, Options{})
	began := time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDeferred, notice.ReasonToken)
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 5*time.Second || calls.Load() != 0 {
		t.Errorf("it took %s, %d calls", took, calls.Load())
	}
}

// Calls that wait for the first token together keep the route's rate after it has come.
func TestRateHoldsAfterTheWaitForAToken(t *testing.T) {
	t.Parallel()
	const calls, rate = 10, 20
	var mu sync.Mutex
	var came []time.Time
	base := server(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, time.Now())
	}).URL
	given := make(chan struct{})
	i := &issuer{url: server(t, func(w http.ResponseWriter, _ *http.Request) {
		<-given
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"access_token":"token-1","token_type":"bearer","expires_in":3600}`)
	}).URL}
	r := i.route(t, fixedRoute(base))
	r.Rate, r.HostConcurrency = rate, 0
	h := newHandler(t, Options{})
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if res := h.Handle(background(t), r, testNotice("{}")); res.Outcome != notice.OutcomeDelivered {
				expect(t, res, notice.OutcomeDeferred, notice.ReasonRate)
			}
		})
	}
	time.Sleep(calls * time.Second / rate) // sleep: until the turns of all calls have passed
	opened := time.Now()
	close(given)
	wg.Wait()
	// Since opened, because a busy machine may delay the first call more than the last.
	if n := len(came); n < 2 || came[n-1].Sub(opened) < time.Duration(n-2)*time.Second/rate {
		t.Errorf("a rate of %d/s was exceeded since %v: %v", rate, opened, came)
	}
}

func TestTokenIsRenewedBeforeItEnds(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	base, _, _ := guarded(t)
	var shift atomic.Int64
	h := newHandler(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	r := i.route(t, fixedRoute(base))
	for _, c := range []struct {
		at     time.Duration
		status int32 // of the issuer
		want   notice.Outcome
		calls  int32
	}{{0, 0, notice.OutcomeDelivered, 1}, {58 * time.Minute, 0, notice.OutcomeDelivered, 1},
		{59*time.Minute + 30*time.Second, 503, notice.OutcomeDelivered, 2}, {59*time.Minute + 50*time.Second, 0, notice.OutcomeDelivered, 3},
		{2 * time.Hour, 503, notice.OutcomeDeferred, 4}} {
		shift.Store(int64(c.at))
		i.status.Store(c.status)
		res := h.Handle(background(t), r, testNotice("{}"))
		if res.Outcome != c.want || i.calls.Load() != c.calls {
			t.Errorf("after %s: %s, %d fetches, want %s, %d", c.at, res.Outcome, i.calls.Load(), c.want, c.calls)
		}
	}
}

// A receiver that refuses the token gets a second call with a new one in the same attempt, which counts for
// the rate, but only if the token is not young.
func TestRefusedTokenIsReplacedOnce(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	base, valid, calls := guarded(t)
	var shift atomic.Int64
	h := newHandler(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	r := i.route(t, fixedRoute(base))
	r.Rate = 20 // one turn per 50 ms
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDelivered, "")

	second := "token-2"
	valid.Store(&second)
	shift.Store(int64(10 * time.Second)) // the token is young
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeRetry, notice.ReasonStatus4xx)
	if i.calls.Load() != 1 || calls.Load() != 2 {
		t.Errorf("a young token: %d fetches, %d calls", i.calls.Load(), calls.Load())
	}

	shift.Store(int64(time.Minute))
	before := time.Now()
	res := h.Handle(background(t), r, testNotice("{}"))
	expect(t, res, notice.OutcomeDelivered, "")
	if i.calls.Load() != 2 || calls.Load() != 4 || !strings.HasPrefix(res.Response, "called again with a new token after 401") {
		t.Errorf("%d fetches, %d calls, %q", i.calls.Load(), calls.Load(), res.Response)
	}
	if took := time.Since(before); took < 40*time.Millisecond {
		t.Errorf("both calls within %s: the rate does not count the second", took)
	}

	never := "token-none" // a receiver that refuses every token is called twice, not more often
	valid.Store(&never)
	shift.Store(int64(2 * time.Minute))
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeRetry, notice.ReasonStatus4xx)
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeRetry, notice.ReasonStatus4xx)
	if i.calls.Load() != 3 || calls.Load() != 7 {
		t.Errorf("%d fetches, %d calls", i.calls.Load(), calls.Load())
	}
}

// Regression test: a call whose token was refused used an attempt although only this machine could not fetch another one.
func TestShortageAtTheRenewalOfATokenUsesNoAttempt(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	base, valid, calls := guarded(t)
	var shift atomic.Int64
	h := newHandler(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	r := i.route(t, fixedRoute(base))
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDelivered, "")
	s, err := h.state(r)
	if err != nil {
		t.Fatal(err)
	}
	transport := s.tokens.client.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, connectError("127.0.0.1:1", syscall.EMFILE)
	}
	transport.CloseIdleConnections()

	second := "token-2"
	valid.Store(&second)
	shift.Store(int64(time.Minute))
	for try := range 2 * breakerFailures {
		shift.Add(int64(2 * tokenRetry))
		res := h.Handle(background(t), r, testNotice("{}"))
		expect(t, res, notice.OutcomeDeferred, notice.ReasonLocal)
		if res.Shortage != notice.ShortDescriptors || res.Unsent != (try > 0) {
			t.Fatalf("call %d: %+v", try, res)
		}
	}
	if calls.Load() != 2 || i.calls.Load() != 1 {
		t.Errorf("%d calls, %d fetches; want 2 and 1", calls.Load(), i.calls.Load())
	}
	host := s.limits.hosts.find(strings.TrimPrefix(base, "http://"), func() *host { return s.limits.newHost("x") })
	if host.breaker.State().String() != "closed" || host.tally.calls[0] != 1 {
		t.Errorf("breaker %s, calls %v", host.breaker.State(), host.tally.calls)
	}

	transport.DialContext = dial
	shift.Add(int64(2 * tokenRetry))
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDelivered, "")
}

// ON_STATUS judges the answer to a token that was just fetched, not the 401 to an older one while no other can be fetched.
func TestRuleFor401WaitsForANewToken(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	base, valid, _ := guarded(t)
	var shift atomic.Int64
	h := newHandler(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	r := i.route(t, fixedRoute(base))
	r.OnStatus = route.OnStatus{401: route.ActionDead}
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDelivered, "")
	none := "token-none"
	valid.Store(&none)
	shift.Store(int64(time.Minute))
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDead, notice.ReasonStatus4xx)

	i.status.Store(503)
	shift.Store(int64(2 * time.Minute))
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeRetry, notice.ReasonStatus4xx)
}

// Many calls that are refused at once renew the token once.
func TestConcurrent401RenewsOnce(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	base, valid, calls := guarded(t)
	var shift atomic.Int64
	h := newHandler(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	r := i.route(t, fixedRoute(base))
	r.HostConcurrency = 0
	expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDelivered, "")
	second := "token-2"
	valid.Store(&second)
	shift.Store(int64(time.Minute))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { expect(t, h.Handle(background(t), r, testNotice("{}")), notice.OutcomeDelivered, "") })
	}
	wg.Wait()
	if i.calls.Load() != 2 || calls.Load() > 101 {
		t.Errorf("%d fetches, %d calls", i.calls.Load(), calls.Load())
	}
}

// On a route whose notices bring their urls, the token is sent only to the hosts in HEADERS_TO.
func TestTokenGoesOnlyToListedHosts(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	base, got := capture(t)
	h := newHandler(t, Options{})
	r := i.route(t, noticeRoute("127.0.0.1"))
	// The last one is kept for the probe below.
	for _, c := range [][2]string{{"http://shop.example", ""}, {base, "Bearer token-1"}} {
		to, want := c[0], c[1]
		var err error
		if r.HeadersTo, err = route.ParseOrigins(to); err != nil {
			t.Fatal(err)
		}
		n := testNotice("{}")
		n.URL = base
		expect(t, h.Handle(background(t), r, n), notice.OutcomeDelivered, "")
		if sent := (<-got).Header.Get("Authorization"); sent != want {
			t.Errorf("HEADERS_TO %s: %q, want %q", to, sent, want)
		}
	}
	x := h.Probe(background(t), r, &notice.Notice{Key: "shop:a:b:c", Made: 1, Content: notice.Content{URL: base}})
	<-got
	if text := x.String(); strings.Contains(text, "token-") || !strings.Contains(text, "> authorization: •••") {
		t.Error(text)
	}
}

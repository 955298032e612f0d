package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/transport"
)

const (
	// A token is replaced before its end: by refreshEarly, but at most by 1/refreshPart of its life. One call
	// fetches the new token. The others use the old one.
	refreshEarly = time.Minute
	refreshPart  = 5
	// youngToken is the minimal age of a token that a 401 invalidates. For a younger one, the issuer would
	// return a token that is as good.
	youngToken = 30 * time.Second
	// tokenRetry is the time after a failed fetch in which waiting calls get the same error.
	tokenRetry = time.Second
	// Bounds of the delay of a notice deferred because there is no token.
	minTokenDelay, maxTokenDelay = time.Second, time.Minute
)

// tokens holds the access token of a route. One call fetches at a time. It is safe for concurrent use.
type tokens struct {
	secret string                    // of the client
	config *clientcredentials.Config // used by the call that fetches
	client *http.Client
	now    func() time.Time
	lock   chan struct{} // has one entry while a call fetches

	mu      sync.Mutex // guards all below
	token   string     // with its type, as sent; empty = none
	got     time.Time
	refresh time.Time // zero: the token has no known end
	expires time.Time
	before  string // the previous token
	failed  error  // error of the last fetch
	until   time.Time
}

func newTokens(r *route.Route, client *http.Client, now func() time.Time) *tokens {
	o := r.OAuth2
	c := &clientcredentials.Config{ClientID: o.ClientID, ClientSecret: string(o.ClientSecret), TokenURL: o.TokenURL.String(), Scopes: o.Scopes}
	if o.Audience != "" {
		c.EndpointParams = url.Values{"audience": {o.Audience}}
	}

	return &tokens{secret: c.ClientSecret, config: c, client: client, now: now, lock: make(chan struct{}, 1)}
}

// tokenClient returns the client for calls to the issuer, with the route's certificates and proxy. It follows
// no redirect, because the request contains the client's secret.
func (h *Handler) tokenClient(r *route.Route) (*http.Client, error) {
	conf, err := tlsConfig(r)
	if err != nil {
		return nil, err
	}

	// HTTP/1.1, since net/http repeats a request without limit if the issuer answers each with GOAWAY.
	dial := &net.Dialer{KeepAlive: keepAlive, Resolver: &h.own.resolver.Resolver}
	t := &http.Transport{DialContext: h.own.dialer(dial.DialContext), TLSClientConfig: conf, TLSHandshakeTimeout: h.opts.TLSTimeout,
		MaxIdleConns: 2, IdleConnTimeout: transport.MaxIdle, MaxResponseHeaderBytes: transport.MaxHead}
	if proxy := r.Proxy.URL(); proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}

	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// get returns a token. It fetches one if there is none, or if the token ends soon and no other call is
// fetching. ctx bounds the fetch and the wait for another call's fetch.
func (t *tokens) get(ctx context.Context) (string, error) {
	token, fresh := t.kept()
	if fresh {
		return token, nil
	}

	select {
	case t.lock <- struct{}{}:
	default:
		if token != "" {
			return token, nil // another call fetches
		}
		select {
		case t.lock <- struct{}{}:
		case <-ctx.Done():
			return "", fmt.Errorf("another call fetches the token: %w", ctx.Err())
		}
	}

	defer func() { <-t.lock }()

	if token, fresh = t.kept(); fresh {
		return token, nil
	}

	err := t.recentError()
	if err == nil {
		err = t.fetch(ctx)
	}

	if token, _ = t.kept(); token != "" { // the new one, or the old one until its end
		return token, nil
	}

	if err == nil {
		err = errExpired
	}

	return "", err
}

var errExpired = errors.New("the issuer gave a token that has expired")

// kept returns the current token, empty if none is valid. fresh means that it need not be replaced.
func (t *tokens) kept() (token string, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	now := t.now()
	if t.token == "" || !t.expires.IsZero() && !now.Before(t.expires) {
		return "", false
	}

	return t.token, t.refresh.IsZero() || now.Before(t.refresh)
}

// recentError returns the error of the last fetch, if that was less than tokenRetry ago.
func (t *tokens) recentError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now().Before(t.until) {
		return t.failed
	}

	return nil
}

func (t *tokens) fetch(ctx context.Context) error {
	got, err := t.request(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	t.mu.Lock()
	defer t.mu.Unlock()

	now := t.now()
	if err != nil {
		t.failed, t.until = err, now.Add(tokenRetry)
		return err
	}

	if t.token != "" { // renew has moved a refused one
		t.before = t.token
	}

	t.token, t.got = got.Type()+" "+got.AccessToken, now
	t.refresh, t.expires = time.Time{}, time.Time{}
	if !got.Expiry.IsZero() {
		life := time.Until(got.Expiry) // x/oauth2 uses the system clock
		t.refresh, t.expires = now.Add(life-min(refreshEarly, life/refreshPart)), now.Add(life)
	}

	return nil
}

// request asks the issuer for an access token. It sends the client's secret in the Authorization header, and if the
// issuer refuses that, in the form. The method that succeeds is used from then on. The caller holds the lock.
func (t *tokens) request(ctx context.Context) (*oauth2.Token, error) {
	if t.config.AuthStyle != oauth2.AuthStyleAutoDetect {
		return t.config.Token(ctx)
	}

	var first error
	// The automatic detection of x/oauth2 would send the second request also while the issuer is down.
	for _, style := range [...]oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams} {
		c := &clientcredentials.Config{ClientID: t.config.ClientID, ClientSecret: t.config.ClientSecret, TokenURL: t.config.TokenURL,
			Scopes: t.config.Scopes, EndpointParams: t.config.EndpointParams, AuthStyle: style}
		got, err := c.Token(ctx)
		if err == nil {
			t.config = c
			return got, nil
		}

		if first == nil {
			first = err
		}

		if !refusedByIssuer(err) {
			break
		}
	}

	return nil, first
}

// refusedByIssuer reports whether the issuer answered that it gives this client no token.
func refusedByIssuer(err error) bool {
	var e *oauth2.RetrieveError
	if !errors.As(err, &e) || e.Response == nil {
		return false
	}

	status := e.Response.StatusCode
	return status >= 400 && status <= 499 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// renew reports whether a call that was answered 401 with the token sent may be repeated with another one. It
// drops the current token if it is the sent one and not young.
func (t *tokens) renew(sent string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.token != sent {
		return true // another call has dropped or replaced it
	}
	if t.now().Sub(t.got) < youngToken {
		return false
	}

	t.before, t.token = t.token, ""
	return true
}

// secrets adds the tokens and the client's secret to the texts that are removed from answers.
func (t *tokens) secrets(s *scrubber) {
	if t == nil {
		return
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	for _, token := range []string{t.token, t.before} {
		s.addToken(token)
	}

	s.add(t.secret)
}

// wantsToken reports whether calls to that destination carry a token.
func (s *routeState) wantsToken(to destination) bool {
	return s.tokens != nil && (s.guard == nil || s.route.HeadersTo.Match(to.at))
}

// authorize gives the call a token, within the route's timeout counted from began. It returns nil, or the
// result of an attempt that ends without a call.
func (s *routeState) authorize(ctx context.Context, n *notice.Notice, to *destination, began time.Time) *notice.Result {
	if !s.wantsToken(*to) {
		return nil
	}

	outer, end := ctx, s.deadline(ctx, began)
	if !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}

	token, err := s.tokens.get(ctx)
	if err == nil {
		to.token = token
		return nil
	}

	res := s.withoutToken(n, err)
	if short := s.own.shortage(ctx, &failedCall{err: err, at: transport.StageConnect, began: began, end: end}); short != "" {
		res = local(short, transport.StageConnect)
	}

	if errors.Is(outer.Err(), context.Canceled) {
		res = notice.DeferredResult(notice.ReasonShutdown, 0, "stopped while waiting for an access token")
	}

	return &res
}

// errorCode matches an error code of RFC 6749, section 5.2. The rest of an issuer's answer is not shown.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// withoutToken returns the result of an attempt that got no access token. The attempt has failed if the issuer
// refused the client. After any other error the notice is deferred.
func (s *routeState) withoutToken(n *notice.Notice, err error) notice.Result {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		text := "no access token: the issuer " + s.route.OAuth2.TokenURL.Hostname() + " was not reached"
		if transport.IsTimeout(err) {
			text += " in time"
		}

		return notice.DeferredResult(notice.ReasonToken, s.tokenDelay(n, nil), text)
	}

	status := refused.Response.StatusCode
	text := fmt.Sprintf("no access token: the issuer %s answered %d", s.route.OAuth2.TokenURL.Hostname(), status)
	if errorCode.MatchString(refused.ErrorCode) {
		text += " " + refused.ErrorCode
	}

	if refusedByIssuer(err) {
		res := notice.RetryResult(notice.ReasonToken, text)
		res.Unsent = true
		return res
	}

	return notice.DeferredResult(notice.ReasonToken, s.tokenDelay(n, refused.Response.Header), text)
}

// tokenDelay returns the delay of a deferral, which grows with the time since the due time. So an outage of
// the issuer does not make all notices due again at the same time.
func (s *routeState) tokenDelay(n *notice.Notice, h http.Header) time.Duration {
	now := s.now()
	after := min(max(now.Sub(n.Due)/4, minTokenDelay), maxTokenDelay)
	return spread(max(after, min(retryAfter(h, now), maxHeadersDelay)))
}

// callAgain makes the one further call after a 401, within the same attempt, if another token may help.
// Otherwise it returns the first result. A shortage of this machine that prevents the fetch of the other token defers the
// notice: the 401 uses no attempt.
func (s *routeState) callAgain(ctx context.Context, a *attempt, first notice.Result) notice.Result {
	if a.progress.Requests >= transport.MaxRequests || !s.tokens.renew(a.to.token) || a.pass.again(ctx) != nil {
		return first
	}

	if refused := s.authorize(ctx, a.n, &a.to, a.began); refused != nil {
		if first.Reason == notice.ReasonStatus4xx { // ON_STATUS does not judge the answer to a token that was too old
			first.Outcome = notice.OutcomeRetry
		}

		if refused.Shortage != "" {
			res := *refused
			res.Unsent = false // a call has ended
			res.Response = "401; the token was not renewed, " + refused.Response
			return res
		}

		first.Response = join("401; the token was not renewed, "+refused.Response, first.Response)
		return first
	}

	a.progress.Restart()
	f := s.exchange(ctx, a, nil)
	res := resultOf(&s.route.Ack, f)
	s.logBlocked(a.n.Key, f.err)
	res.Response = join("called again with a new token after 401", res.Response)
	return res
}

// attempt is one attempt in progress.
type attempt struct {
	n        *notice.Notice
	to       destination
	pass     *pass     // nil: without limits
	began    time.Time // from which the route's timeout counts
	progress *transport.Progress
}

// maxTokenWait is how long a call may wait for its token, after its turn, without another turn.
const maxTokenWait = 10 * time.Millisecond

// again waits for one more turn at the rates of the route and of the host, from which the duration of the call is then
// measured. It returns a deferral if there is no turn.
func (p *pass) again(ctx context.Context) *deferral {
	p.l.mu.Lock()
	now := p.l.now()
	wait, refused := p.l.pace(p.h, now, p.class)
	p.l.mu.Unlock()
	if refused != nil {
		return refused
	}

	p.wait = wait
	if !p.await(ctx) {
		return put(notice.DeferredResult(notice.ReasonShutdown, 0, "it waited for its turn at the route's rate"))
	}

	p.at = now.Add(wait)
	return nil
}

// MayRepeat implements transport.Limiter: a request that is sent again takes another turn.
func (p *pass) MayRepeat(ctx context.Context) bool { return p.again(ctx) == nil }

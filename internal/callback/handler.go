package callback

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/transport"
	"notifier/internal/wire"
)

// Options of a Handler. The zero value works.
type Options struct {
	// Logger logs breakers that open and close. The caller logs attempts, because it sees their results.
	Logger *zap.Logger
	// Concurrency is the maximum number of concurrent calls. It sizes the pools of kept connections. Default
	// 512.
	Concurrency int
	// UserAgent is the User-Agent header of callbacks. Default "notifier".
	UserAgent string
	// ConnectTimeout and TLSTimeout bound those steps within a route's timeout, so that an unreachable host
	// holds its slot for less time. Default 5 s each.
	ConnectTimeout, TLSTimeout time.Duration
	// Resolver looks up host names. Default: the system's.
	Resolver *net.Resolver
	// Fleet connects the limits to those of other instances; nil = a single instance.
	Fleet Fleet
	// Shared means that rates and slots hold for all instances together. Otherwise they hold for each
	// instance.
	Shared bool
	// HostLimits, unless nil, returns the limits that operators have set for a host with its port on the route with a
	// prefix; 0 = none. The lower of these and the route's hold.
	HostLimits func(prefix, host string) (rate float64, concurrency int)
	// Now is the clock for signatures, limits and Retry-After. Default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}

	if o.Concurrency <= 0 {
		o.Concurrency = 512
	}

	if o.UserAgent == "" {
		o.UserAgent = "notifier"
	}

	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 5 * time.Second
	}

	if o.TLSTimeout <= 0 {
		o.TLSTimeout = 5 * time.Second
	}

	if o.Now == nil {
		o.Now = time.Now
	}

	if o.Fleet == nil {
		o.Fleet = alone{}
	}

	if o.HostLimits == nil {
		o.HostLimits = func(string, string) (float64, int) { return 0, 0 }
	}

	return o
}

// Handler delivers notices by HTTP. It is safe for concurrent use.
type Handler struct {
	opts Options
	dial dialFunc // replaced by tests
	own  *machine
	keep time.Duration // transport.DefaultIdle, except in tests
	// recheck is transport.DefaultRecheck, except in tests.
	recheck time.Duration
	// proxiedAge is the constant of that name, except in tests.
	proxiedAge time.Duration

	mu         sync.Mutex // guards transports and the creation of states
	transports map[transportKey]*transport.Pool
	states     sync.Map // *route.Route → *routeState
}

// New makes a Handler.
func New(o Options) *Handler {
	// The standard library reads them once. If that failed in a shortage of descriptors, all later TLS handshakes would fail.
	_, _ = x509.SystemCertPool()

	h := &Handler{opts: o.withDefaults(), keep: transport.DefaultIdle, recheck: transport.DefaultRecheck,
		proxiedAge: proxiedAge, transports: map[transportKey]*transport.Pool{}}
	h.own = &machine{resolver: newResolver(o.Resolver), limit: wire.DescriptorLimit, free: h.closeIdle}
	return h
}

// closeIdle closes some idle connections of each transport.
func (h *Handler) closeIdle() {
	h.mu.Lock()
	pools := slices.Collect(maps.Values(h.transports))
	h.mu.Unlock()
	for _, p := range pools {
		p.CloseOldest(perDial)
	}
}

// Close closes idle connections. Running calls end with their contexts.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()

	for _, t := range h.transports {
		t.Close()
	}

	h.states.Range(func(_, s any) bool {
		if t := s.(*routeState).tokens; t != nil {
			t.client.CloseIdleConnections()
		}
		return true
	})
}

// routeState is everything that calls of one route share. It is made once per route.
type routeState struct {
	route     *route.Route
	fixed     destination // of a fixed target
	guard     *guard      // nil for a fixed target
	transport *transport.Pool
	signing   *sign.Settings
	chain     *sign.Chain
	tokens    *tokens // nil: calls carry no token
	limits    *limits
	secrets   scrubber
	own       *machine
	userAgent string
	now       func() time.Time
	log       *zap.Logger
}

// Prepare creates the state that a route's calls need. It returns an error for invalid TLS files, proxy,
// allow list or headers. Without Prepare, the first call of Handle does it.
func (h *Handler) Prepare(r *route.Route) error {
	_, err := h.state(r)
	return err
}

func (h *Handler) state(r *route.Route) (*routeState, error) {
	if s, ok := h.states.Load(r); ok {
		return s.(*routeState), nil
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	if s, ok := h.states.Load(r); ok {
		return s.(*routeState), nil
	}

	s, err := h.newState(r)
	if err != nil {
		return nil, err
	}

	h.states.Store(r, s)
	return s, nil
}

func (h *Handler) newState(r *route.Route) (*routeState, error) {
	s := &routeState{route: r, signing: r.Signing(), userAgent: h.opts.UserAgent, now: h.opts.Now, own: h.own,
		log: h.opts.Logger.With(zap.String("route", r.Name))}

	var err error
	if s.chain, err = sign.New(s.signing); err != nil {
		return nil, err
	}

	switch r.Target.Kind {
	case route.KindFixed:
		if s.fixed, err = destinationOf(r.Target.URL); err != nil {
			return nil, err
		}
	case route.KindNotice:
		s.guard = &guard{r}
	default:
		return nil, fmt.Errorf("target %q is not called by HTTP", r.Target.Kind)
	}

	if r.OAuth2 != nil {
		client, err := h.tokenClient(r)
		if err != nil {
			return nil, err
		}

		s.tokens = newTokens(r, client, h.opts.Now)
	}

	s.secrets = routeSecrets(r)
	s.limits = newLimits(r, h.MaxInstances(r), peers{h.opts.Fleet, h.opts.Shared}, h.opts.Now, s.logBreaker)
	s.limits.own = h.opts.HostLimits
	if s.transport, err = h.transport(r, s.guard); err != nil {
		return nil, err
	}

	return s, nil
}

// logBreaker logs that a host's breaker has opened or closed. Changes in between are not logged: a dead host gets a try every
// half a minute.
func (s *routeState) logBreaker(host string, from, to gobreaker.State, remote bool) {
	switch {
	case from == gobreaker.StateClosed && remote:
		s.log.Info("breaker opened: the host fails slowly at another instance, deferring its notices", zap.String("host", host))
	case from == gobreaker.StateClosed:
		s.log.Warn("breaker opened: the host fails slowly, trying one call at a time", zap.String("host", host))
	case to == gobreaker.StateClosed:
		s.log.Info("breaker closed: the host answers again, resuming calls", zap.String("host", host))
	}
}

// transport returns the transports that r shares with other routes, and creates them if needed. The caller holds h.mu.
func (h *Handler) transport(r *route.Route, g *guard) (*transport.Pool, error) {
	key := transportKey{ca: r.CAFile, cert: r.CertFile, key: r.KeyFile, http1: r.HTTP1, olderTLS: r.TLSCompatible}
	if p := r.Proxy.URL(); p != nil {
		key.proxy = p.String()
	}

	if g != nil {
		key.guarded, key.allow = true, g.key()
	}

	if t := h.transports[key]; t != nil {
		return t, nil
	}

	t, err := h.newTransport(r, g)
	if err != nil {
		return nil, err
	}

	h.transports[key] = t
	return t, nil
}

// Handle makes one attempt to deliver a notice. Every failure is a result, never an error.
func (h *Handler) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	s, err := h.state(r)
	if err != nil {
		return notice.RetryResult(notice.ReasonInvalid, "route "+r.Name+": "+err.Error())
	}

	to, err := s.check(n)
	if err != nil {
		res := s.refusal(n, to, err)
		res.Unsent = true
		return res
	}

	began := time.Now()
	pass, refused := s.limits.enter(to.port, n.Class())
	if refused != nil {
		return h.deferred(n, refused)
	}

	res, timedOut := notice.Result{Reason: notice.ReasonShutdown}, false // the result of a panic
	defer func() { pass.end(res, timedOut) }()

	if !pass.await(ctx) {
		res = notice.DeferredResult(notice.ReasonShutdown, 0, "it waited for its turn at the route's rate")
		return res
	}

	asked := time.Now()
	if without := s.authorize(ctx, n, &to, began); without != nil {
		res = *without
		return res
	}

	if time.Since(asked) > maxTokenWait { // other calls waited for the same token: their turns have passed, too
		if refused := pass.again(ctx); refused != nil {
			res = refused.Result
			return h.deferred(n, refused)
		}
	}

	waited := time.Since(began)
	a := attempt{n, to, pass, began, &transport.Progress{}}
	f := s.exchange(ctx, &a, nil)
	res = resultOf(&r.Ack, f)
	if f.status == http.StatusUnauthorized && to.token != "" {
		res = s.callAgain(ctx, &a, res)
	}

	res.Waited, res.Host = waited, to.port
	s.logBlocked(n.Key, f.err)
	timedOut = res.Reason == notice.ReasonTimeout
	if pass.trial && res.Outcome == notice.OutcomeRetry && f.stage < transport.StageSend {
		// Nothing was sent, so an instance that reaches the host can make the attempt.
		if theirs := s.limits.afterTrial(pass); theirs != nil {
			return h.deferred(n, theirs)
		}
	}

	return res
}

// deferred hands a deferred notice to the instance that can deliver it, if one is known, and returns the
// result.
func (h *Handler) deferred(n *notice.Notice, d *deferral) notice.Result {
	if id := d.to(n.Key); id != "" {
		h.opts.Fleet.HandOver(Handover{Key: n.Key, To: id, After: d.After})
	}
	return d.Result
}

// check returns the destination of a notice, or an error if it may not be called.
func (s *routeState) check(n *notice.Notice) (destination, error) {
	to, err := s.target(n)
	if err != nil {
		return destination{}, err
	}
	if text := s.route.Invalid(&n.Content); text != "" {
		return to, fmt.Errorf("%w: %s", errInvalid, text)
	}

	if s.guard != nil {
		if err := s.route.CheckTarget(to.url, to.host); err != nil {
			return to, err
		}
		if err := s.route.CheckHeaders(to.at); err != nil {
			return to, err
		}
	}

	return to, nil
}

// Bounds of the delay of a notice that waits for HEADERS_TO.
const minHeadersDelay, maxHeadersDelay = time.Minute, 15 * time.Minute

// refusal returns the result of a notice that check refused. Only a new configuration can end the wait for
// headers, so that delay is a quarter of the time since the due time.
func (s *routeState) refusal(n *notice.Notice, to destination, err error) notice.Result {
	var headers *route.HeadersError
	if errors.As(err, &headers) {
		after := min(max(s.now().Sub(n.Due)/4, minHeadersDelay), maxHeadersDelay)
		return notice.DeferredResult(notice.ReasonHeaders, after, headers.Error())
	}

	return failure(&facts{secrets: func() scrubber { return s.secretsOf(n, to) }}, err, 0)
}

// secretsOf returns the secrets of a call.
func (s *routeState) secretsOf(n *notice.Notice, to destination) scrubber {
	secrets := slices.Clip(s.secrets)
	if s.guard != nil {
		secrets.addURL(to.url)
	}

	secrets.addHeaders(n.Headers)
	secrets.addToken(to.token)
	s.tokens.secrets(&secrets)
	return secrets
}

// logBlocked logs the address of a blocked call, which the result does not name.
func (s *routeState) logBlocked(key string, err error) {
	var blocked *route.BlockedError
	if errors.As(err, &blocked) && !blocked.Literal {
		s.log.Warn("call blocked: the host's name resolves to a private address", zap.String("key", key), zap.String("why", blocked.Text()))
	}
}

// exchange sends one request and reads the answer, within the route's timeout. seen, if not nil, receives the
// request before it is sent and the head of the answer.
func (s *routeState) exchange(ctx context.Context, a *attempt, seen *Exchange) *facts {
	n, to := a.n, a.to
	f := &facts{timeout: s.route.Timeout, locked: n.Locked, target: to.url, fixed: s.route.Target.Kind == route.KindFixed,
		olderTLS: s.route.TLSCompatible, onStatus: s.route.OnStatus, secrets: func() scrubber { return s.secretsOf(n, to) }}
	end := s.deadline(ctx, a.began)
	c, err := s.call(n, to, s.now(), seen != nil)
	if err == nil {
		c.setTrace(ctx)
		if seen != nil {
			seen.request(s, n, c)
		}

		x := &transport.Exchange{Request: &c.Request, Progress: a.progress, Deadline: end, StatusOnly: !needsBody(&s.route.Ack),
			Observe: seen != nil}
		if a.pass != nil { // a nil *pass would be a Limiter
			x.Repeats = a.pass
		}

		err = s.transport.Do(ctx, x)
		f.add(&x.Answer)
		if seen != nil {
			seen.answer(&x.Answer)
		}
	}

	f.err, f.stage, f.now = err, a.progress.Stage(), s.now()
	if !end.IsZero() {
		f.overrun = time.Since(end)
	}

	f.cancelled = errors.Is(ctx.Err(), context.Canceled)
	f.short = s.own.shortage(ctx, &failedCall{to.host, err, f.stage, a.began, end})
	return f
}

// deadline returns when a call that started at began must have ended; zero = never.
func (s *routeState) deadline(ctx context.Context, began time.Time) (end time.Time) {
	if s.route.Timeout > 0 {
		end = began.Add(s.route.Timeout)
	}

	if at, ok := ctx.Deadline(); ok && (end.IsZero() || at.Before(end)) {
		end = at
	}

	return end
}

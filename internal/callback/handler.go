package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
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
)

// Options of a Handler. The zero value works.
type Options struct {
	// Logger hears of breakers that open and close. Attempts are logged by the
	// caller, who sees their results.
	Logger *zap.Logger
	// Concurrency is how many calls run at once at most; it sizes the pools of
	// kept connections. Default 512.
	Concurrency int
	// UserAgent is what callbacks call themselves. Default "notifier".
	UserAgent string
	// ConnectTimeout and TLSTimeout bound those steps within a route's timeout, so
	// that a host that is gone holds its slot for less. Default 5 s each.
	ConnectTimeout, TLSTimeout time.Duration
	// Resolver looks up names. Default the system's.
	Resolver *net.Resolver
	// Fleet is how limits reach the other instances; nil = there are none.
	Fleet Fleet
	// Shared: rates and slots are of all instances together; otherwise of each.
	Shared bool
	// Now is the clock that signatures, limits and Retry-After go by. Default
	// time.Now.
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
	return o
}

// bodyDrain is how long a body is waited for that the result does not need: it
// is read for the record and to keep the connection.
const bodyDrain = 2 * time.Second

// Handler delivers notices by HTTP. It is safe for concurrent use.
type Handler struct {
	opts Options
	dial dialer        // tests put another in
	keep time.Duration // keptIdle, or a test's
	only transportKind // a test's, for what both can call

	mu         sync.Mutex // guards transports and the making of states
	transports map[transportKey]*transportPool
	states     sync.Map // *route.Route → *routeState
}

// New makes a Handler.
func New(o Options) *Handler {
	return &Handler{opts: o.withDefaults(), keep: keptIdle, transports: map[transportKey]*transportPool{}}
}

// Close closes the connections that are kept open. Running calls end as their
// contexts say.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.transports {
		t.close()
	}
	h.states.Range(func(_, s any) bool {
		if t := s.(*routeState).tokens; t != nil {
			t.client.CloseIdleConnections()
		}
		return true
	})
}

// routeState is what is made of a route once.
type routeState struct {
	route     *route.Route
	fixed     destination // of a fixed target
	guard     *guard      // nil for a fixed target
	transport *transportPool
	signing   *sign.Settings
	chain     *sign.Chain
	tokens    *tokens // nil = calls carry no token
	limits    *limits
	secrets   scrubber
	userAgent string
	now       func() time.Time
	log       *zap.Logger
}

// Prepare makes what a route's calls need, and reports what is wrong with its TLS
// files, proxy, allow list or headers. Handle does it at the first call
// otherwise.
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
	s := &routeState{route: r, signing: r.Signing(), userAgent: h.opts.UserAgent, now: h.opts.Now, log: h.opts.Logger.With(zap.String("route", r.Name))}
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
		return nil, fmt.Errorf("its target %q is none that is called by HTTP", r.Target.Kind)
	}
	if r.OAuth2 != nil {
		client, err := h.tokenClient(r)
		if err != nil {
			return nil, err
		}
		s.tokens = newTokens(r, client, h.opts.Now)
	}
	s.secrets = routeSecrets(r)
	log := s.log
	s.limits = newLimits(r, h.Few(r), peers{h.opts.Fleet, h.opts.Shared}, h.opts.Now, func(host string, from, to gobreaker.State, told bool) {
		// The tries between are left out: a dead host makes one every half a minute.
		switch {
		case from == gobreaker.StateClosed && told:
			log.Info("breaker open: the host keeps failing slowly at another instance", zap.String("host", host))
		case from == gobreaker.StateClosed:
			log.Warn("breaker open: the host keeps failing slowly and gets one try at a time", zap.String("host", host))
		case to == gobreaker.StateClosed:
			log.Info("breaker closed: the host answers again", zap.String("host", host))
		}
	})
	key := transportKey{ca: r.CAFile, cert: r.CertFile, key: r.KeyFile}
	if p := r.Proxy.URL(); p != nil {
		key.proxy = p.String()
	}
	if s.guard != nil {
		key.guarded, key.allow = true, s.guard.key()
	}
	if s.transport = h.transports[key]; s.transport == nil {
		if s.transport, err = h.newTransport(r, s.guard); err != nil {
			return nil, err
		}
		h.transports[key] = s.transport
	}
	return s, nil
}

// Handle makes one attempt. Its error is its result.
func (h *Handler) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	s, err := h.state(r)
	if err != nil {
		return notice.RetryResult(notice.ReasonInvalid, "route "+r.Name+": "+err.Error())
	}
	to, err := s.check(n)
	if err != nil {
		res := s.finish(n, to, s.refusal(n, err))
		res.Unsent = true
		return res
	}
	began := time.Now()
	pass, refused := s.limits.enter(to.port)
	if refused != nil {
		return h.deferred(n, refused)
	}
	res, timedOut := notice.Result{Reason: notice.ReasonShutdown}, false // what a panic leaves behind
	defer func() { pass.end(res, timedOut) }()
	if !pass.await(ctx) {
		res = notice.DeferredResult(notice.ReasonShutdown, 0, "it waited for its turn at the route's rate")
		return res
	}
	if without := s.authorize(ctx, n, &to, began); without != nil {
		res = *without
		return res
	}
	waited := time.Since(began)
	tr := &tracker{began: began, first: pass.first}
	f := s.exchange(ctx, n, to, tr, nil)
	res = s.finish(n, to, resultOf(&r.Ack, f))
	if f.status == http.StatusUnauthorized && to.token != "" {
		res = s.callAgain(ctx, &attempt{n, to, pass, tr}, res)
	}
	res.Waited, res.Host = waited, to.port
	s.logBlocked(n.Key, f.err)
	timedOut = res.Reason == notice.ReasonTimeout
	if pass.trial && res.Outcome == notice.OutcomeRetry && f.stage < stageSend {
		// Nothing was sent: the instances that the host answers can make the attempt.
		if theirs := s.limits.afterTrial(pass); theirs != nil {
			return h.deferred(n, theirs)
		}
	}
	return res
}

// deferred hands a notice that is deferred to the instance that can deliver it.
func (h *Handler) deferred(n *notice.Notice, d *deferral) notice.Result {
	if id := d.to(n.Key); id != "" {
		h.opts.Fleet.Hand(Handed{Key: n.Key, To: id, After: d.After})
	}
	return d.Result
}

// check finds the target and refuses what may not be called.
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

// Bounds of a deferral because of HEADERS_TO.
const minHeadersDelay, maxHeadersDelay = time.Minute, 15 * time.Minute

// refusal is the result of a notice that check refused. Only the configuration can end the
// wait for headers, so the delay is a quarter of the time since the due time.
func (s *routeState) refusal(n *notice.Notice, err error) notice.Result {
	var headers *route.HeadersError
	if errors.As(err, &headers) {
		after := min(max(s.now().Sub(n.Due)/4, minHeadersDelay), maxHeadersDelay)
		return notice.DeferredResult(notice.ReasonHeaders, after, headers.Error())
	}
	return failure(&facts{}, err, 0)
}

// finish takes secrets out of what is kept of an answer.
func (s *routeState) finish(n *notice.Notice, to destination, res notice.Result) notice.Result {
	if res.Response == "" {
		return res
	}
	secrets := slices.Clip(s.secrets)
	if s.guard != nil {
		secrets.addURL(to.url)
	}
	secrets.addHeaders(n.Headers)
	s.tokens.secrets(&secrets)
	res.Response = notice.Kept(secrets.scrub(res.Response))
	return res
}

// logBlocked logs the address that the result of a blocked call does not name.
func (s *routeState) logBlocked(key string, err error) {
	var blocked *route.BlockedError
	if errors.As(err, &blocked) && !blocked.Literal {
		s.log.Warn("call blocked: the host's name leads to a private address", zap.String("key", key), zap.String("why", blocked.Text()))
	}
}

// exchange sends one request and reads the answer, within the route's timeout. seen, if not nil, is shown the request before it is sent and the answer's
// head.
func (s *routeState) exchange(ctx context.Context, n *notice.Notice, to destination, tr *tracker, seen *Exchange) *facts {
	f := &facts{timeout: s.route.Timeout, locked: n.Locked, target: to.url, fixed: s.route.Target.Kind == route.KindFixed}
	end := s.deadline(ctx, tr.began)
	c, err := s.call(n, to, s.now(), seen != nil)
	if err == nil {
		c.setTrace(ctx)
		if seen != nil {
			seen.request(s, n, c)
		}
		x := &exchange{call: c, tr: tr, f: f, end: end, drain: !needsBody(&s.route.Ack), seen: seen}
		if s.transport.isDirect(to.origin) {
			err = s.transport.direct.do(ctx, x)
			if to.origin.secure && err != nil && tr.stage() == stageTLS {
				s.transport.forget(to.origin) // it may not speak HTTP/1.1 any more
			}
		} else {
			err = s.transport.viaNetHTTP(ctx, x)
		}
	}
	f.err, f.stage, f.now = err, tr.stage(), s.now()
	if !end.IsZero() {
		f.overrun = time.Since(end)
	}
	f.cancelled = errors.Is(ctx.Err(), context.Canceled)
	return f
}

// deadline is when a call that began then must have ended; zero = never.
func (s *routeState) deadline(ctx context.Context, began time.Time) (end time.Time) {
	if s.route.Timeout > 0 {
		end = began.Add(s.route.Timeout)
	}
	if at, ok := ctx.Deadline(); ok && (end.IsZero() || at.Before(end)) {
		end = at
	}
	return end
}

// readBody reads at most maxBody of an answer, and reports whether that was all of it.
func readBody(f *facts, body io.Reader, length int64) (all bool) {
	size := 512
	if length > 0 {
		size = int(min(length, maxBody)) + 1
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):min(cap(buf), maxBody+1)])
		buf = buf[:len(buf)+n]
		if len(buf) > maxBody {
			f.body, f.more = buf[:maxBody], true
			return false
		}
		if err != nil {
			f.body = buf
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return true
			}
			f.bodyErr = err
			return false
		}
	}
}

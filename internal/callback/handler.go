package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/route"
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
	// HeaderTimeout bounds the wait for the answer's head. Default none but the
	// route's timeout.
	HeaderTimeout time.Duration
	// Resolver looks up names. Default the system's.
	Resolver *net.Resolver
	// Fleet is how limits reach the other instances.
	Fleet Fleet
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
	o.Fleet = o.Fleet.withDefaults()
	return o
}

// bodyDrain is how long a body is waited for that the result does not need: it
// is read for the record and to keep the connection.
const bodyDrain = 2 * time.Second

// Handler delivers notices by HTTP. It is safe for concurrent use.
type Handler struct {
	opts Options
	dial func(ctx context.Context, network, addr string) (net.Conn, error) // tests put another in
	keep time.Duration                                                     // keptIdle, or a test's

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
}

// routeState is what is made of a route once.
type routeState struct {
	route     *route.Route
	fixed     destination // of a fixed target
	guard     *guard      // nil for a fixed target
	transport *transportPool
	signer    *signer
	limits    *limits
	secrets   scrubber
	userAgent []string
	now       func() time.Time
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
	s := &routeState{route: r, signer: newSigner(r), userAgent: []string{h.opts.UserAgent}, now: h.opts.Now}
	switch r.Target.Kind {
	case route.KindFixed:
		var err error
		if s.fixed, err = destinationOf(r.Target.URL); err != nil {
			return nil, err
		}
	case route.KindNotice:
		s.guard = &guard{r}
	default:
		return nil, fmt.Errorf("its target %q is none that is called by HTTP", r.Target.Kind)
	}
	s.secrets = routeSecrets(r)
	log := h.opts.Logger.With(zap.String("route", r.Name))
	s.limits = newLimits(r, h.Few(r), h.opts.Fleet, h.opts.Now, func(host string, from, to gobreaker.State, told bool) {
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
		var err error
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
		return s.finish(n, to, failure(&facts{}, err, 0))
	}
	pass, refused := s.limits.enter(to.port)
	if refused != nil {
		if id := refused.to(n.Key); id != "" {
			h.opts.Fleet.Hand(Handed{Key: n.Key, To: id, After: refused.After})
		}
		return refused.Result
	}
	res, timedOut := notice.Result{Reason: notice.ReasonShutdown}, false // what a panic leaves behind
	defer func() { pass.end(res, timedOut) }()
	if !pass.await(ctx) {
		res = notice.DeferredResult(notice.ReasonShutdown, 0, "it waited for its turn at the route's rate")
		return res
	}
	f := s.exchange(ctx, n, to, &tracker{first: pass.first}, nil)
	res = s.finish(n, to, resultOf(&r.Ack, f))
	timedOut = res.Reason == notice.ReasonTimeout
	return res
}

// destination is where a call goes: the address as it was given, and its host
// in the one form that everything goes by which tells hosts apart.
type destination struct {
	url  *url.URL
	call *url.URL // the same with the host in one form, by which connections are kept
	host string   // in the form of notice.Host
	port string   // host:port, by which limits are kept
}

// check finds the target and refuses what may not be called.
func (s *routeState) check(n *notice.Notice) (destination, error) {
	to, err := s.target(n)
	if err != nil {
		return destination{}, err
	}
	if text := s.route.LacksAudience(&n.Content); text != "" {
		return to, fmt.Errorf("%w: its audience %s", errInvalid, text)
	}
	if s.guard != nil {
		if err := s.route.CheckTarget(to.url, to.host); err != nil {
			return to, err
		}
	}
	return to, nil
}

func destinationOf(u *url.URL) (destination, error) {
	host, err := notice.Host(u.Hostname())
	if err != nil {
		return destination{}, err
	}
	to := destination{url: u, call: u, host: host, port: hostPort(u, host)}
	name, zone, _ := strings.Cut(u.Hostname(), "%")
	if ip, err := netip.ParseAddr(name); zone != "" && err == nil && ip.IsLinkLocalUnicast() {
		return to, nil // it is none without its zone
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p := u.Port(); p != "" {
		host += ":" + p
	}
	if host != u.Host {
		c := *u
		c.Host, to.call = host, &c
	}
	return to, nil
}

// hostPort names a destination for its limits.
func hostPort(u *url.URL, host string) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(host, port)
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
	res.Response = notice.Kept(secrets.scrub(res.Response))
	return res
}

// exchange sends one request and reads the answer. seen, if not nil, is shown
// the request before it is sent and the answer's head.
func (s *routeState) exchange(ctx context.Context, n *notice.Notice, to destination, tr *tracker, seen *Exchange) *facts {
	f := &facts{timeout: s.route.Timeout, locked: n.Locked, target: to.url}
	outer := ctx
	var cancel context.CancelFunc
	end, bounded := ctx.Deadline()
	if s.route.Timeout <= 0 || bounded && time.Until(end) <= s.route.Timeout {
		ctx, cancel = context.WithCancel(ctx) // the caller has set the timeout
	} else {
		ctx, cancel = context.WithTimeout(ctx, s.route.Timeout)
	}
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, tr.trace(seen != nil))
	req, err := s.request(ctx, n, to, s.now())
	if err == nil {
		if seen != nil {
			seen.request(s, n, req)
		}
		var resp *http.Response
		if resp, err = s.roundTrip(req, tr); err == nil {
			tr.set(stageBody)
			f.status, f.header = resp.StatusCode, resp.Header
			if seen != nil {
				seen.answer(resp)
			}
			s.readBody(f, resp, cancel)
		}
	}
	f.err, f.stage, f.now = err, tr.stage(), s.now()
	f.expired = errors.Is(ctx.Err(), context.DeadlineExceeded)
	f.cancelled = errors.Is(outer.Err(), context.Canceled)
	return f
}

// roundTrip sends the request; again if it was not wholly written because the
// connection was a kept one that turned out to be closed. What the receiver may
// have read whole is not sent again: it may be at work on it. There is an end to
// it: each time a kept connection is used up, and a fresh one is tried once.
func (s *routeState) roundTrip(req *http.Request, tr *tracker) (*http.Response, error) {
	t := s.transport.transport(tr.first)
	for {
		resp, err := t.RoundTrip(req)
		if err == nil {
			if u := tr.on.Load(); u != nil {
				u.readKeepAlive(resp.Header)
			}
			return resp, nil
		}
		if !tr.unsent(err) || req.Context().Err() != nil {
			return nil, err
		}
		again := *req
		again.Body = bodyOf(req)
		tr.restart()
		req = &again
	}
}

// bodyOf makes the body of a request anew.
func bodyOf(req *http.Request) io.ReadCloser {
	if req.GetBody == nil {
		return empty{}
	}
	body, _ := req.GetBody() // never fails: it reads from memory
	return body
}

// readBody reads at most maxBody of the answer. Where the result needs only the
// status, a receiver that holds the body back does not hold the slot.
func (s *routeState) readBody(f *facts, resp *http.Response, cancel context.CancelFunc) {
	defer func() { _ = resp.Body.Close() }()
	if f.status == http.StatusSwitchingProtocols { // a stream, not an answer
		return
	}
	if !needsBody(&s.route.Ack) && resp.ContentLength != 0 {
		stop := time.AfterFunc(bodyDrain, cancel)
		defer stop.Stop()
	}
	size := 512
	if resp.ContentLength > 0 {
		size = int(min(resp.ContentLength, maxBody)) + 1
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := resp.Body.Read(buf[len(buf):min(cap(buf), maxBody+1)])
		buf = buf[:len(buf)+n]
		if len(buf) > maxBody {
			f.body, f.more = buf[:maxBody], true
			return
		}
		if err != nil {
			f.body = buf
			if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				f.bodyErr = err
			}
			return
		}
	}
}

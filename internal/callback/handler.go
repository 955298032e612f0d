package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	return o
}

// bodyDrain is how long a body is waited for that the verdict does not need: it
// is read for the record and to keep the connection.
const bodyDrain = 2 * time.Second

// Handler delivers notices by HTTP. It is safe for concurrent use.
type Handler struct {
	opts Options
	dial func(ctx context.Context, network, addr string) (net.Conn, error) // tests put another in

	mu         sync.Mutex // guards transports and the making of states
	transports map[transportKey]*http.Transport
	states     sync.Map // *route.Route → *routeState
}

// New makes a Handler.
func New(o Options) *Handler {
	return &Handler{opts: o.withDefaults(), transports: map[transportKey]*http.Transport{}}
}

// Close closes the connections that are kept open. Running calls end as their
// contexts say.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.transports {
		t.CloseIdleConnections()
	}
}

// routeState is what is made of a route once.
type routeState struct {
	route     *route.Route
	fixed     *url.URL // of a fixed target
	fixedHost string
	guard     *guard // nil for a fixed target
	transport *http.Transport
	signer    *signer
	limits    *limits
	secrets   scrubber
	proxy     *url.URL
	userAgent []string
}

// Prepare makes what a route's calls need, and tells what is wrong with its TLS
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
	s := &routeState{route: r, signer: newSigner(r.Secrets), userAgent: []string{h.opts.UserAgent}}
	for i, key := range r.Secrets {
		if err := key.Check(); err != nil {
			return nil, fmt.Errorf("signing secret %d %w", i+1, err)
		}
	}
	if err := notice.CheckHeaders(r.Headers); err != nil {
		return nil, err
	}
	var err error
	if s.proxy, err = parseProxy(r.Proxy); err != nil {
		return nil, err
	}
	switch r.Target.Kind {
	case route.KindFixed:
		if s.fixed, err = url.Parse(r.Target.URL); err != nil {
			return nil, errors.New("its target is no address; want http://host/path or https://host/path")
		}
		s.fixedHost = hostPort(s.fixed)
		if r.HTTPSOnly && s.fixed.Scheme != "https" {
			return nil, fmt.Errorf("its target is %s, and the route calls https addresses only", s.fixed.Scheme)
		}
	case route.KindNotice:
		if s.guard, err = newGuard(r); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("its target %q is none that is called by HTTP", r.Target.Kind)
	}
	s.secrets = routeSecrets(r, s.fixed, s.proxy)
	log := h.opts.Logger.With(zap.String("route", r.Name))
	// A fixed target is one host: there is nobody to keep slots for.
	doubtful := 0
	if s.fixed == nil && r.Concurrency > 1 {
		doubtful = r.Concurrency / 2
	}
	s.limits = newLimits(r.HostConcurrency, doubtful, r.Rate, h.opts.Now, func(host string, from, to gobreaker.State) {
		// The tries between are left out: a dead host makes one every half a minute.
		switch {
		case from == gobreaker.StateClosed:
			log.Warn("breaker open: the host keeps failing slowly and gets one try at a time", zap.String("host", host))
		case to == gobreaker.StateClosed:
			log.Info("breaker closed: the host answers again", zap.String("host", host))
		}
	})
	key := transportKey{ca: r.CAFile, cert: r.CertFile, key: r.KeyFile, proxy: r.Proxy}
	if s.guard != nil {
		key.guarded, key.allow = true, s.guard.key()
	}
	if s.transport = h.transports[key]; s.transport == nil {
		if s.transport, err = h.newTransport(r, s.guard, s.proxy); err != nil {
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
	u, err := s.check(n)
	if err != nil {
		return s.finish(n, u, failure(&facts{}, err, 0))
	}
	host := s.fixedHost
	if s.fixed == nil {
		host = hostPort(u)
	}
	pass, refused := s.limits.enter(host)
	if refused != nil {
		return *refused
	}
	res, timedOut := notice.Result{Reason: notice.ReasonShutdown}, false // what a panic leaves behind
	defer func() { pass.end(res, timedOut) }()
	f := s.exchange(ctx, n, u, h.opts.Now, &tracker{}, nil)
	res = s.finish(n, u, verdict(&r.Ack, f))
	timedOut = res.Reason == notice.ReasonTimeout
	return res
}

// check finds the target and refuses what may not be called.
func (s *routeState) check(n *notice.Notice) (*url.URL, error) {
	u, err := s.target(n)
	if err != nil {
		return nil, err
	}
	if s.guard != nil {
		if err := s.guard.checkURL(u); err != nil {
			return u, err
		}
	}
	return u, nil
}

// hostPort names a destination for its limits, the same for all the spellings a
// producer may choose.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port)
}

// finish takes secrets out of what is kept of an answer.
func (s *routeState) finish(n *notice.Notice, u *url.URL, res notice.Result) notice.Result {
	if res.Response == "" {
		return res
	}
	secrets := slices.Clip(s.secrets)
	if s.fixed == nil {
		secrets.addURL(u)
	}
	secrets.addHeaders(n.Headers)
	res.Response = notice.Kept(secrets.scrub(res.Response))
	return res
}

// exchange sends one request and reads the answer. seen, if not nil, is shown
// the request before it is sent and the answer's head.
func (s *routeState) exchange(ctx context.Context, n *notice.Notice, u *url.URL, now func() time.Time, tr *tracker, seen *Exchange) *facts {
	f := &facts{timeout: s.route.Timeout, locked: n.Locked, target: u}
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
	req, err := s.request(ctx, n, u, now())
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
	f.err, f.stage, f.now = err, tr.stage(), now()
	f.expired = errors.Is(ctx.Err(), context.DeadlineExceeded)
	f.cancelled = errors.Is(outer.Err(), context.Canceled)
	return f
}

// resendWithin: an idle connection that the receiver had closed is noticed by
// the next request on it at once; what breaks off later was being worked on.
const resendWithin = time.Second

// roundTrip sends the request; once more if the connection was a kept one that
// the receiver closed meanwhile.
func (s *routeState) roundTrip(req *http.Request, tr *tracker) (*http.Response, error) {
	began := time.Now()
	resp, err := s.transport.RoundTrip(req)
	if err == nil || !tr.reused.Load() || time.Since(began) > resendWithin || req.Context().Err() != nil {
		return resp, err
	}
	if !closedIdle(err) {
		return nil, err
	}
	again := *req
	again.Body, _ = req.GetBody() // never fails: it reads from memory
	tr.set(stageStart)
	return s.transport.RoundTrip(&again)
}

// closedIdle tells of the errors that a request on a connection meets that its
// other end had closed. A reset of one HTTP/2 stream is none of them: that was
// meant for the request.
func closedIdle(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection") // a value that net/http does not export
}

// readBody reads at most maxBody of the answer. Where the verdict needs only the
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

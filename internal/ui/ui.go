package ui

import (
	"context"
	"crypto/rand"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/doctor"
	"notifier/internal/mask"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/search"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Root is the address of the pages.
const Root = problems.Root

// Options are the parameters of New.
type Options struct {
	Engine Engine
	Routes *route.Table
	// Sessions checks and creates sessions.
	Sessions *auth.Sessions
	// Loopback reports whether only this machine can reach the listener. Host is the configured host of
	// the listener. Without clients, requests for other hosts are refused.
	Loopback bool
	Host     string
	// Meter limits the requests of each client's sessions. Nil means no limit.
	Meter *auth.Meter
	// Examine runs the checks of doctor. Nil means no checks.
	Examine func(context.Context) (*doctor.Report, error)
	// Tests sends test calls to receivers. Nil means no tests.
	Tests *api.TestSender
	// Mask are the masking rules of bodies and responses. Nil means none.
	Mask *mask.Rules
	// History reads finalized notices that Redis no longer keeps. Nil means no history.
	History Historian
	// Replays creates, lists and switches replays. Nil without a history.
	Replays api.Replayer
	// Recurrences reads and changes recurring notices. Nil means that there are none.
	Recurrences Recurrer
	// Health is the health of receivers. Nil means that it is unknown.
	Health Physician
	// Keys derives the key of cursors. Nil means a key of this handler only.
	Keys *wire.KeyRing
	// Logger logs errors. Nil means none.
	Logger  *zap.Logger
	Version string
	// Sampler reads the figures. Nil means one of this handler's own.
	Sampler *problems.Sampler
	// Now is Redis's clock. Nil means time.Now.
	Now func() time.Time
}

// Pages is the dashboard, an [http.Handler]. All its methods may be called at the same time.
type Pages struct {
	o         Options
	log       *zap.Logger
	mux       catalogue
	look      *look
	now       func() time.Time
	trail     *audit.Trail
	crossSite *http.CrossOriginProtection
	sampler   *problems.Sampler
	searcher  *search.Searcher
	rendered  rendered
	streams   *auth.Shares // open ones
	// noticeStreams counts the open streams of notices.
	noticeStreams atomic.Int64
	closing       chan struct{} // closed when Run ends
}

// New returns the pages.
func New(o Options) *Pages {
	p := &Pages{o: o, log: o.Logger, mux: catalogue{mux: http.NewServeMux()}, look: embeddedLook(), now: o.Now, closing: make(chan struct{})}
	if p.log == nil {
		p.log = zap.NewNop()
	}

	if p.now == nil {
		p.now = time.Now
	}

	if p.o.Keys == nil {
		own := make([]byte, wire.KeySize)
		_, _ = rand.Read(own) // it never fails
		p.o.Keys = wire.FixedKey(own)
	}

	p.trail, p.crossSite = audit.NewTrail(o.Engine, p.log), http.NewCrossOriginProtection()
	p.streams = auth.NewShares(maxStreams, o.Meter.Clients())
	if p.sampler = o.Sampler; p.sampler == nil {
		p.sampler = problems.NewSampler(problems.SamplerOptions{Engine: o.Engine, Routes: o.Routes, Health: o.Health, Examine: o.Examine,
			Now: p.now})
	}

	p.searcher = &search.Searcher{Redis: o.Engine, History: o.History, Routes: o.Routes}
	p.gate()
	p.addLanguages()
	p.mux.handle(auth.Public, "GET "+assetsPath+"{name}", p.look.serveAsset)
	p.page(auth.Read, "GET /ui/{$}", p.showNow)
	p.page(auth.Read, "GET /ui/live/{page}", p.showLive)
	p.page(auth.Read, "GET /ui/live/notices/{key}", p.showLiveNotice)
	p.page(auth.Read, "GET /ui/receivers", p.showReceivers)
	p.page(auth.Read, "GET /ui/receivers/{receiver}", p.showReceiver)
	p.page(auth.Operate, "GET /ui/receivers/{receiver}/redeliver", p.showRedeliver)
	p.change(auth.Operate, "POST /ui/receivers/{receiver}/redeliver", p.redeliver)
	p.changeReceivers()
	p.changeRedirects()
	p.page(auth.Read, "GET /ui/destinations", p.showDestinations)
	p.page(auth.Read, "GET /ui/notices", p.showNotices)
	p.page(auth.Read, "GET /ui/notices.csv", p.downloadFound)
	p.page(auth.Read, "GET /ui/notices/{key}", p.showNotice)
	p.changeNotices()
	p.change(auth.Operate, "POST /ui/notices/{key}/test", p.sendTest)
	p.page(auth.Read, "GET /ui/history", p.showHistory)
	p.page(auth.Read, "GET /ui/report", p.showReport)
	p.page(auth.Read, "GET /ui/report.csv", p.downloadReport)
	p.page(auth.Read, "GET /ui/replays", p.showReplays)
	p.page(auth.Operate, "GET /ui/replays/new", p.showNewReplay)
	p.change(auth.Operate, "POST /ui/replays", p.startReplay)
	p.page(auth.Read, "GET /ui/replays/{replay}", p.showReplay)
	p.page(auth.Read, "GET /ui/live/replays/{replay}", p.showLiveReplay)
	p.change(auth.Operate, "POST /ui/replays/{replay}/stop", p.switchReplay(true))
	p.change(auth.Operate, "POST /ui/replays/{replay}/resume", p.switchReplay(false))
	p.page(auth.Read, "GET /ui/recurrences", p.showRecurrences)
	p.changeRecurrences()
	p.changeNewRecurrences()
	p.page(auth.Read, "GET /ui/dead", p.showDead)
	p.page(auth.Read, "GET /ui/dead/group", p.showGroup)
	p.page(auth.Read, "GET /ui/dead/redriven", p.showRedriven)
	p.page(auth.Operate, "GET /ui/dead/download", p.download)
	p.change(auth.Operate, "POST /ui/dead/redrive", p.changeGroup(store.Redrive, audit.Redrive, "group"))
	p.change(auth.Operate, "POST /ui/dead/purge", p.changeGroup(store.Purge, audit.Purge, "purged"))
	p.page(auth.Read, "GET /ui/routes", p.showRoutes)
	p.change(auth.Operate, "POST /ui/routes/{name}/pause", p.switchRoute(true))
	p.change(auth.Operate, "POST /ui/routes/{name}/resume", p.switchRoute(false))
	p.page(auth.Read, "GET /ui/doctor", p.showDoctor)
	p.page(auth.Read, "GET /ui/audit", p.showAudit)
	p.page(auth.Read, "GET /ui/", func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		return failure{http.StatusNotFound, say("There is no such page.")}
	})
	return p
}

// catalogue is a mux that lists its patterns, each with the role that it requires. A
// pattern without a role cannot be added. Tests of all pages use the list.
type catalogue struct {
	mux      *http.ServeMux
	patterns []pattern
}

type pattern struct {
	role auth.Role
	text string
}

func (c *catalogue) handle(role auth.Role, text string, h http.HandlerFunc) {
	c.patterns = append(c.patterns, pattern{role, text})
	c.mux.HandleFunc(text, h)
}

// handler serves a page to a visitor. fail turns an error into a page.
type handler func(w http.ResponseWriter, r *http.Request, v Visitor) error

// page serves a pattern to visitors whose role includes the required role.
func (p *Pages) page(role auth.Role, pattern string, h handler) {
	p.mux.handle(role, pattern, func(w http.ResponseWriter, r *http.Request) {
		v, err := p.admit(w, r)
		v.Zone = zoneOf(r)
		if err == nil {
			err = v.opens(role, pattern)
		}

		if err == nil {
			err = p.withinRate(w, v)
		}

		if err == nil {
			err = h(w, r, v)
		}

		if err != nil {
			p.fail(w, r, v, err)
		}
	})
}

// withinRate refuses a visitor whose client makes too many requests.
func (p *Pages) withinRate(w http.ResponseWriter, v Visitor) error {
	if p.o.Meter == nil {
		return nil
	}

	wait, ok := p.o.Meter.Admit(v.Client, time.Now())
	if ok {
		return nil
	}

	setRetryAfter(w, wait)
	return failure{http.StatusTooManyRequests, say("Too many requests by sign-ins and links of this client. Try again later.")}
}

func setRetryAfter(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
}

// change serves a pattern that changes something. The request must come from one of the visitor's own
// pages.
func (p *Pages) change(role auth.Role, pattern string, h handler) {
	p.page(role, pattern, func(w http.ResponseWriter, r *http.Request, v Visitor) error {
		if err := p.confirm(w, r, v); err != nil {
			return err
		}
		return h(w, r, v)
	})
}

// policy is the Content-Security-Policy of every page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request under Root.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler { // the value the package documents
				panic(v)
			}

			p.log.Error("a page panicked", zap.String("path", r.URL.Path), zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
			http.Error(w, languageOf(r).plain(say("This is a defect of the service. Its log has the cause.")), http.StatusInternalServerError)
		}
	}()
	p.mux.mux.ServeHTTP(w, r)
}

// Beside serves the pages under Root and redirects browsers from "/" to them. The other handler serves all
// other requests, including "/" for programs.
func (p *Pages) Beside(other http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, Root):
			p.ServeHTTP(w, r)
		case r.URL.Path == "/ui", r.URL.Path == "/" && wantsPage(r):
			w.Header().Set("Location", Root)
			w.WriteHeader(http.StatusFound)
		default:
			other.ServeHTTP(w, r)
		}
	})
}

// wantsPage reports whether the request is of a browser: programs do not accept text/html.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// Run updates the figures of dashboards until ctx ends, which also ends their streams.
func (p *Pages) Run(ctx context.Context) error {
	defer close(p.closing)
	p.sampler.Run(ctx)
	return nil
}

package api

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/mask"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/search"
	"notifier/internal/wire"
)

// Options is what New needs.
type Options struct {
	Engine Engine
	Routes *route.Table
	// Clients may call the API. Without any, only requests that name a loopback
	// host are answered, and only if Loopback is set.
	Clients []auth.Client
	// Failures limits wrong tokens, at the pages too. Nil: separate limits.
	Failures *auth.Failures
	// MaxBody is the most bytes a notice's body may have. 0 means 256 KiB.
	MaxBody int64
	// Meter limits the requests of each client. Nil: one of this handler's own.
	Meter *auth.Meter
	// Tracer makes the spans of schedule calls. Nil: there are none.
	Tracer trace.Tracer
	// Observer counts calls. Nil: none.
	Observer Observer
	// Memory bounds the bytes of request bodies in flight. 0 means DefaultMemory.
	Memory int64
	// History reads finalized notices. Nil means no history.
	History Historian
	// Eraser erases finalized notices. Nil means no history.
	Eraser Eraser
	// Replayer runs replays. Nil means no history.
	Replayer Replayer
	// Keys derives the key of cursors. Nil: one of this handler's own, whose
	// cursors no other takes.
	Keys *wire.KeyRing
	// Recurrences stores recurring notices. Nil: their calls are answered with 404.
	Recurrences Recurrer
	// Tests sends test calls to receivers. Nil: every test is answered with 409.
	Tests *TestSender
	// Mask are the rules by which copies of attempts are masked. Nil: they are not.
	Mask *mask.Rules
	// Metrics answers GET /metrics. Nil means 404.
	Metrics http.Handler
	// Sampler reads the figures in which problems are found. Nil: one of this handler's own, without the checks of doctor.
	Sampler *problems.Sampler
	// Pages reports whether the dashboard is served beside the API.
	Pages bool
	// Logger logs each call, and internal errors at error. Nil means no log.
	Logger *zap.Logger
	// LogCalls says which calls are logged at info. Empty: none.
	LogCalls LogCalls
	Version  string
	// Loopback reports whether only this machine can reach the listener.
	Loopback bool
}

const (
	defaultMaxBody = 256 << 10
	envelope       = 64 << 10 // the maximum size of a request without the notice's body
	maxBatchBytes  = 32 << 20
	maxBatch       = 1000
	maxPage        = 1000
	defaultPage    = 100
	maxTarget      = 8 << 10 // of the request line's address
)

// api answers the HTTP calls.
type api struct {
	scheduler  Scheduler
	finder     Finder
	changer    Changer
	restorer   Restorer
	reporter   Reporter
	lister     Lister
	operator   Operator
	holder     Holder
	counter    Counter
	prober     Prober
	numberer   Numberer
	several    bool // more than one client is configured
	musterer   Musterer
	tapper     Tapper
	redirector Redirector
	jobber     Jobber
	forgetter  Forgetter
	opener     Opener   // nil = no notice is sealed
	recurrer   Recurrer // nil = there are no recurring notices
	tests      *TestSender
	mask       *mask.Rules
	tapTimes   tapTimes
	trail      *audit.Trail
	replayer   Replayer  // nil = there is no history
	eraser     Eraser    // nil = there is no history
	historian  Historian // nil = there is no history
	searcher   *search.Searcher
	sampler    *problems.Sampler
	pages      bool
	sessions   *auth.Sessions
	routes     *route.Table
	clients    *auth.Clients
	failures   *auth.Failures
	maxBody    int64
	maxBatch   int64
	memory     *memory
	meter      *auth.Meter
	observer   Observer
	tracer     trace.Tracer // nil = there are no spans
	keys       *wire.KeyRing
	metrics    http.Handler
	log        *zap.Logger
	logCalls   LogCalls
	loopback   bool
	document   func() []byte // made by the first call, as docs is
	docs       func() *docsPage
	tree       []operation
	now        func() time.Time // by Redis's clock
	crossSite  *http.CrossOriginProtection
	keySets    *KeySet
}

// New is the handler of the whole API.
func New(o Options) http.Handler {
	a := &api{
		scheduler: o.Engine, restorer: o.Engine, finder: o.Engine, changer: o.Engine, reporter: o.Engine, lister: o.Engine, operator: o.Engine,
		holder: o.Engine, counter: o.Engine, prober: o.Engine, musterer: o.Engine, numberer: o.Engine, tapper: o.Engine, redirector: o.Engine,
		jobber: o.Engine, forgetter: o.Engine,
		tests: o.Tests, mask: o.Mask, tapTimes: defaultTapTimes, several: len(o.Clients) > 1, clients: auth.NewClients(o.Clients),
		routes: o.Routes, maxBody: o.MaxBody, metrics: o.Metrics, log: o.Logger, logCalls: o.LogCalls, loopback: o.Loopback,
		recurrer:  o.Recurrences,
		historian: o.History, eraser: o.Eraser, replayer: o.Replayer, keys: o.Keys, now: o.Engine.Now, crossSite: http.NewCrossOriginProtection(),
		keySets: NewKeySet(o.Routes), tracer: o.Tracer, sampler: o.Sampler, pages: o.Pages,
	}
	if a.maxBody <= 0 {
		a.maxBody = defaultMaxBody
	}

	if a.keys == nil {
		own := make([]byte, wire.KeySize)
		_, _ = rand.Read(own) // it never fails
		a.keys = wire.FixedKey(own)
	}

	if a.log == nil {
		a.log = zap.NewNop()
	}

	if a.failures = o.Failures; a.failures == nil {
		a.failures = auth.NewFailures(auth.FailuresOptions{Logger: a.log})
	}

	a.opener, _ = o.Engine.(Opener)
	a.trail = audit.NewTrail(o.Engine, a.log)
	a.searcher = &search.Searcher{Redis: o.Engine, Routes: o.Routes}
	if h, ok := o.History.(search.History); ok {
		a.searcher.History = h
	}

	if a.sampler == nil {
		a.sampler = problems.NewSampler(problems.SamplerOptions{Engine: o.Engine, Routes: o.Routes, Health: o.Engine, Now: a.now})
	}

	a.sessions = auth.NewSessions(auth.SessionOptions{Keys: a.keys, Clients: a.clients, Register: o.Engine, Now: a.now})
	if a.meter = o.Meter; a.meter == nil {
		a.meter = auth.NewMeter(o.Clients)
	}

	if a.observer = o.Observer; a.observer == nil {
		a.observer = unobserved{}
	}

	a.memory = newMemory(o.Memory, len(o.Clients), a.observer)
	a.maxBatch = min(max(maxBatchBytes, a.itemLimit()), a.memory.perClient)
	a.tree = a.operations()
	a.document = sync.OnceValue(func() []byte { return document(a.tree, o.Version) })
	a.docs = sync.OnceValue(a.page)
	return a
}

// page renders the document for people.
func (a *api) page() *docsPage {
	docs, err := newDocs(a.document())
	if err != nil {
		panic("api: " + err.Error()) // it does not depend on input
	}

	return docs
}

// itemLimit returns the maximum size, in bytes, of one notice in a request. It allows two bytes of JSON for each byte
// of a body, which is enough for base64 and for ordinary text. The decoded body is checked against maxBody separately.
func (a *api) itemLimit() int64 { return 2*a.maxBody + envelope }

// readTimeout is how long a request may take to arrive: a batch of 32 MiB over a slow line.
const readTimeout = 60 * time.Second

// Server returns an HTTP server for handler, with timeouts for slow clients. The caller runs and shuts it down.
func Server(handler http.Handler, addr string) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readTimeout,
		WriteTimeout:      90 * time.Second, // reading included
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          nil,
	}
}

// caller is the client of a request. The zero value covers every key.
type caller struct{ auth.Caller }

// check checks a key of a path.
func (c caller) check(key string) error {
	if _, err := keys.Parse(key); err != nil {
		var f codec.Faults
		f.Add("path.key", codec.Clip(key, 100), "%s", codec.Clip(err.Error(), 200))
		return refusal(f)
	}

	if !c.Covers(key) {
		return absent(key)
	}

	return nil
}

func absent(key string) *Problem {
	return problem(http.StatusNotFound, "no notice is kept under %s: it was never scheduled, was erased, or was settled longer ago than the "+
		"retention",
		key)
}

func noRoute(name string) *Problem {
	return problem(http.StatusNotFound, "no route is named %q; GET /v1/routes lists them", codec.Clip(name, 64))
}

// operation is one call of the API, for the router and the document.
type operation struct {
	// role is required of the caller. The table's rows are written without field
	// names, so that a row without a role does not compile.
	role auth.Role
	call
}

// call is an operation without its role.
type call struct {
	method  string
	path    string
	id      string
	summary string
	about   string
	query   []parameter
	body    any    // the schema's type; nil = the call takes no body
	example string // a whole body, of which the document makes a list where ndjson is set
	ndjson  bool   // the body may be NDJSON, and then the answer is
	answer  any    // the schema's type of the success
	// repeated is another type of a 200, nil = none.
	repeated any
	ok       []int // statuses of success
	fails    []int // statuses of problems beside those every call has
	serve    handler
	hidden   bool // not in the document: an HTML page

	segments []string
}

type handler func(w http.ResponseWriter, r *http.Request, at site) error

// site is a request as the router has parsed it.
type site struct {
	caller
	call  *calling
	param string // the path's {key}, {name} or {id}
	// readAs is the delay that was read from a number without a unit, for the answer.
	readAs string
	// sealed: the answer leaves sealed notices sealed for every role.
	sealed bool
}

// failure turns an engine's error into a problem.
func (a *api) failure(ctx context.Context, err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return problem(http.StatusServiceUnavailable, "the request was given up by its caller").with("Retry-After", "1")
	}

	if p := Explain(err); p != nil {
		return p
	}

	a.log.Error("an API call failed", zap.Error(err))
	return problem(http.StatusInternalServerError, "this is a defect of the service, not of the request; its log has the cause")
}

func wrongPath(path string) *Problem {
	return problem(http.StatusNotFound, "nothing is served at %q; /openapi.json describes what is", codec.Clip(path, 200))
}

func tooLarge(what string, limit int64) *Problem {
	return problem(http.StatusRequestEntityTooLarge, "%s is larger than the %d bytes that are allowed", what, limit)
}

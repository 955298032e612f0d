package clienttest

import (
	"crypto/cipher"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"notifier/client"
	"notifier/client/webhook"
)

// Options configures a Service. With the zero value the service has one route, all, which covers every
// key. Each notice of that route needs a url.
type Options struct {
	Routes []Route
	// Receiver gets all callbacks, whatever their URL. If it is nil, callbacks are sent over the network
	// to the notice's URL, for example that of an [httptest.Server].
	Receiver http.Handler
	// Start is the initial time of the clock. Zero means the present.
	Start time.Time
}

// Route configures a route, like the environment variables of a real service.
type Route struct {
	Name   string
	Prefix string // app, app:module or app:module:type; empty = every key
	// Target is notice (the default), an http(s) URL, list:<key>, stream:<key> or log, like
	// NOTIFIER_ROUTE_<NAME>_TARGET.
	Target string
	// Retry has the delays between attempts. Nil means 15s 3m 10m 30m 30m 1h 2h 6h 15h. An empty list
	// means one attempt.
	Retry []time.Duration
	// Report makes a delivery wait for the report of a consumer, like _ACK=report. Otherwise a notice is
	// delivered when its entry is pushed to the list or stream.
	Report bool
	// Timeout limits an attempt, and the time until a report. 0 means 10 s.
	Timeout time.Duration
	// Secret is one or more keys that sign callbacks, separated by commas. Each begins with whsec_. The receiver
	// verifies with the same keys. If Secret is empty, callbacks are not signed. A real service may sign with a key
	// that it derives from the route's secret for each receiver; [client.Client.ReceiverSecret] returns that key.
	Secret string
	// Sealed gives entries of a list or stream a sealed text in place of the body, like _SEAL. [client.Client.Open] opens it.
	Sealed bool
}

// Entry is an element of a list or stream.
type Entry struct {
	ID          string
	Key         string
	Attempt     int
	Due         time.Time
	ContentType string
	Body        []byte
	// Sealed is set in place of Body if the route is sealed. ContentType is then only set if the producer gave it.
	Sealed string
}

// Service is an in-memory service. It is safe for concurrent use.
type Service struct {
	// URL is the URL of the API, for NOTIFIER_URL.
	URL string

	server   *httptest.Server
	routes   []*routeState
	receiver http.Handler
	web      *http.Client
	sealer   cipher.AEAD // of sealed entries

	turn sync.Mutex // held by Advance

	mu   sync.Mutex
	now  time.Time
	kept map[string]*notice
	made int
	// recurring are the recurring notices by key, and numbers those of their last notices, also of deleted ones.
	recurring map[string]*recurrence
	numbers   map[string]int
	jobs      []map[string]any // bulk changes as the API shows them, latest first
	failing   int              // number of calls that will be answered with status
	status    int
}

type routeState struct {
	Route
	entries []Entry
}

var defaultLadder = []time.Duration{15 * time.Second, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute, time.Hour,
	2 * time.Hour, 6 * time.Hour, 15 * time.Hour}

// New starts a service. Close stops it. New panics if a route is invalid.
func New(o Options) *Service {
	s := &Service{receiver: o.Receiver, sealer: newSealer(), now: o.Start.UTC(), kept: map[string]*notice{},
		recurring: map[string]*recurrence{},
		numbers:   map[string]int{}}
	if o.Start.IsZero() {
		s.now = time.Now().UTC()
	}

	s.now = s.now.Truncate(time.Millisecond)
	if len(o.Routes) == 0 {
		o.Routes = []Route{{Name: "all"}}
	}

	for _, r := range o.Routes {
		s.routes = append(s.routes, newRoute(r))
	}

	s.web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.server = httptest.NewServer(s.handler())
	s.URL = s.server.URL
	return s
}

func newRoute(r Route) *routeState {
	if r.Target == "" {
		r.Target = "notice"
	}

	if r.Retry == nil {
		r.Retry = defaultLadder
	}

	if r.Timeout <= 0 {
		r.Timeout = 10 * time.Second
	}

	kind := targetKind(r.Target)
	if r.Name == "" || kind == "" {
		panic(fmt.Sprintf("clienttest: route %q to %q: want a name, and the target notice, http(s)://…, list:<key>, stream:<key> or log",
			r.Name, r.Target))
	}

	if r.Secret != "" {
		if _, err := webhook.New(r.Secret); err != nil {
			panic("clienttest: route " + r.Name + ": " + err.Error())
		}
	}

	return &routeState{Route: r}
}

// targetKind returns the API's name for the kind of a target; "" if the target is invalid.
func targetKind(target string) string {
	switch scheme, rest, _ := strings.Cut(target, ":"); {
	case target == "notice", target == "log":
		return target
	case (scheme == "list" || scheme == "stream") && rest != "":
		return scheme
	case (scheme == "http" || scheme == "https") && strings.HasPrefix(rest, "//"):
		return "http"
	}
	return ""
}

// Close stops the service.
func (s *Service) Close() {
	s.server.Close()
	s.web.CloseIdleConnections()
}

// Client returns a client of the service without retries, so that a test gets each answer.
func (s *Service) Client() *client.Client {
	c, err := client.New(client.Options{URL: s.URL, Retries: -1, HTTP: s.server.Client()})
	if err != nil {
		panic("clienttest: " + err.Error()) // the URL is valid
	}

	return c
}

// Now returns the time of the service's clock.
func (s *Service) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Fail simulates an outage. The given number of next calls get status, for example 503, and have no
// effect.
func (s *Service) Fail(calls, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing, s.status = calls, status
}

// Take removes and returns the entries of a route's list or stream, oldest first. It panics if no route
// has this name.
func (s *Service) Take(route string) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.routes {
		if r.Name == route {
			list := r.entries
			r.entries = nil
			return list
		}
	}

	panic("clienttest: no route is named " + route)
}

// maxAttempts is the maximum number of attempts of one Advance. Without it Advance would not return if
// a receiver schedules a notice in each call.
const maxAttempts = 100_000

// Advance moves the clock forward by d, makes all attempts that become due until then, and returns their number.
// Advance(0) makes the attempts that are due now. Attempts run one at a time, in the order of their due times. A
// receiver may call the API, but must not call Advance. Advance panics after 100,000 attempts.
func (s *Service) Advance(d time.Duration) (attempts int) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()

	end := s.now.Add(d)
	for {
		n := s.next(end)
		if n == nil {
			break
		}

		// During an attempt the clock shows its due time. An overdue attempt runs at the present time.
		if at := n.wakes(); at.After(s.now) {
			s.now = at
		}

		if n.expired(s.now) && !n.handed {
			s.bury(n)
			continue
		}

		if n.handed {
			s.unreported(n)
			continue
		}

		if attempts++; attempts > maxAttempts {
			panic("clienttest: Advance stopped after 100,000 attempts; does the receiver schedule a notice in each call?")
		}

		s.attempt(n)
	}

	if end.After(s.now) {
		s.now = end
	}

	return attempts
}

// next returns the first notice that is due by end; nil if none is.
func (s *Service) next(end time.Time) *notice {
	var first *notice
	for _, n := range s.kept {
		waits := n.state == client.Scheduled || n.state == client.Claimed && n.handed
		if !waits || n.wakes().After(end) {
			continue
		}

		if first == nil || n.wakes().Before(first.wakes()) || n.wakes().Equal(first.wakes()) && n.serial < first.serial {
			first = n
		}
	}

	return first
}

// routeOf returns the route with the longest prefix that covers a key; nil if none does.
func (s *Service) routeOf(key string) *routeState {
	var best *routeState
	for _, r := range s.routes {
		if under(key, r.Prefix) && (best == nil || len(r.Prefix) > len(best.Prefix)) {
			best = r
		}
	}

	return best
}

func under(key, prefix string) bool {
	return prefix == "" || key == prefix || strings.HasPrefix(key, prefix+":")
}

func (s *Service) routeNamed(name string) *routeState {
	if i := slices.IndexFunc(s.routes, func(r *routeState) bool { return r.Name == name }); i >= 0 {
		return s.routes[i]
	}
	return nil
}

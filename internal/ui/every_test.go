package ui_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// subject is a notice, with its route, receiver and portal link.
type subject struct {
	key, route, reason, host, prefix string
	link                             string // the token of a portal link
}

// ask is a request.
type ask struct {
	method, path string
	form         url.Values
}

func (a ask) String() string { return a.method + " " + a.path + " " + a.form.Encode() }

// asks returns the requests of a pattern for a subject. An unknown pattern fails the test: add new pages
// here, and all tests of every page include them.
func asks(t testing.TB, pattern string, x subject) []ask {
	t.Helper()
	get := func(paths ...string) []ask {
		var out []ask
		for _, p := range paths {
			out = append(out, ask{method: http.MethodGet, path: p})
		}
		return out
	}
	post := func(path string, fields ...string) []ask {
		form := url.Values{}
		for i := 0; i+1 < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		return []ask{{http.MethodPost, path, form}}
	}
	q := url.QueryEscape
	notice, group := "/ui/notices/"+url.PathEscape(x.key), "route="+q(x.route)+"&reason="+q(x.reason)+"&host="+q(x.host)
	of := []string{"route", x.route, "reason", x.reason, "host", x.host, "count", "9", "sure", "yes"}
	switch pattern {
	case "GET /ui/{$}":
		return get("/ui/", "/ui/?said="+q(x.key)+"&n="+q(x.key))
	case "GET /ui/":
		return get("/ui/nothing", "/ui/"+url.PathEscape(x.key))
	case "GET /ui/assets/{name}":
		return get("/ui/assets/" + url.PathEscape(x.host))
	case "GET /ui/live/{page}":
		return get("/ui/live/now", "/ui/live/receivers", "/ui/live/"+url.PathEscape(x.route))
	case "GET /ui/live/notices/{key}":
		return get("/ui/live/notices/" + url.PathEscape(x.key))
	case "GET /ui/receivers/{receiver}/redeliver":
		return get("/ui/receivers/"+url.PathEscape(x.host)+"/redeliver?route="+q(x.route),
			"/ui/receivers/"+url.PathEscape(x.host)+"/redeliver?preview=1&since=-1h&rate="+q(x.key)+"&route="+q(x.route),
			"/ui/receivers/"+url.PathEscape(x.host)+"/redeliver?preview=1&since=-1h&route="+q(x.route))
	case "POST /ui/receivers/{receiver}/redeliver":
		return post("/ui/receivers/"+url.PathEscape(x.host)+"/redeliver", "route", x.route, "since", "-2h", "rate", "10/s")
	case "POST /ui/receivers/pause":
		return append(post("/ui/receivers/pause", "host", x.host, "prefix", x.prefix, "until", "+2h", "over", "10m"),
			post("/ui/receivers/pause", "audience", x.key, "from", x.host)...)
	case "POST /ui/redirects/{redirect}/stop", "POST /ui/redirects/{redirect}/resume":
		name, _, _ := strings.Cut(x.host, ".")
		return post("/ui/redirects/" + url.PathEscape("rdr_"+name) + pattern[strings.LastIndexByte(pattern, '/'):])
	case "POST /ui/receivers/resume":
		return append(post("/ui/receivers/resume", "host", x.host, "prefix", x.prefix),
			post("/ui/receivers/resume", "host", x.host, "prefix", x.prefix, "from", x.key)...)
	case "POST /ui/receivers/limit":
		return post("/ui/receivers/limit", "host", x.host, "prefix", x.prefix, "rate", "5/s", "concurrency", "2", "from", x.host)
	case "GET /ui/receivers/{receiver}":
		return get("/ui/receivers/"+url.PathEscape(x.host), "/ui/receivers/"+url.PathEscape(x.host)+":443",
			"/ui/receivers/"+url.PathEscape(x.key))
	case "GET /ui/receivers", "GET /ui/destinations", "GET /ui/routes", "GET /ui/doctor", "GET /ui/opened":
		return get(strings.TrimPrefix(pattern, "GET "))
	case "GET /ui/notices":
		return get("/ui/notices", "/ui/notices?q="+q(x.key), "/ui/notices?q="+q(x.key[:len(x.key)-1]), "/ui/notices?q="+q(x.key[len(x.key)-1:]),
			"/ui/notices?host="+q(x.host), "/ui/notices?route="+q(x.route), "/ui/notices?route="+q(x.prefix), "/ui/notices?reason="+q(x.reason),
			"/ui/notices?state=dead&since=-1h&until=%2B1h", "/ui/notices?state=scheduled", "/ui/notices?since="+q(x.key),
			"/ui/notices?cursor="+q(x.key), "/ui/notices?q=7d", "/ui/notices?q="+q("part="+x.key[len(x.key)-1:]+" 30h"),
			"/ui/notices?q="+q("host="+x.host+" failed yesterday 10-11"), "/ui/notices?q="+q(`"`+x.key+`" 7d`),
			"/ui/notices?q=delivered&past="+q(x.key),
			"/ui/notices?id="+q(x.key),
			"/ui/notices?route="+q(x.route)+"&id=msg_0123456789abcdef0123456789")
	case "GET /ui/notices.csv":
		return get("/ui/notices.csv", "/ui/notices.csv?q="+q(x.key), "/ui/notices.csv?q="+q("host="+x.host),
			"/ui/notices.csv?q="+q("route="+x.route),
			"/ui/notices.csv?q="+q(`"`+x.key+`" 7d`),
			"/ui/notices.csv?q=part%3D1", "/ui/notices.csv?q=state%3Dgone")
	case "GET /ui/notices/{key}":
		return get(notice, notice+"?said=cancelled", notice+"?ended", notice+"?ended="+q(x.key))
	case "GET /ui/history":
		return get("/ui/history", "/ui/history?q="+q(x.key), "/ui/history?host="+q(x.host), "/ui/history?route="+q(x.route),
			"/ui/history?state=replaced&past="+q(x.key))
	case "GET /ui/report", "GET /ui/report.csv":
		at := strings.TrimPrefix(pattern, "GET ")
		return get(at, at+"?month=2026-11&by=route&prefix="+q(x.prefix), at+"?month="+q(x.key), at+"?by="+q(x.host))
	case "GET /ui/replays":
		return get("/ui/replays")
	case "GET /ui/replays/new":
		return get("/ui/replays/new", "/ui/replays/new?preview=1&since=-1h&prefix="+q(x.prefix)+"&host="+q(x.host),
			"/ui/replays/new?preview=1&rate="+q(x.key))
	case "GET /ui/replays/{replay}", "GET /ui/live/replays/{replay}":
		at := strings.TrimSuffix(strings.TrimPrefix(pattern, "GET "), "{replay}")
		name, _, _ := strings.Cut(x.host, ".")
		return get(at+url.PathEscape(x.route+":"+x.host), at+url.PathEscape(name+":"+name))
	case "POST /ui/replays":
		return post("/ui/replays", "since", "-1h", "prefix", x.prefix, "host", x.host)
	case "POST /ui/replays/{replay}/stop", "POST /ui/replays/{replay}/resume":
		return post("/ui/replays/" + url.PathEscape(x.route+":"+x.host) + pattern[strings.LastIndexByte(pattern, '/'):])
	case "GET /ui/recurrences":
		return get("/ui/recurrences", "/ui/recurrences?cursor="+q(x.key))
	case "GET /ui/recurrences/new":
		return get("/ui/recurrences/new")
	case "POST /ui/recurrences/new", "POST /ui/recurrences":
		at := strings.TrimPrefix(pattern, "POST ")
		return append(post(at, "key", x.key+"n", "every", "1h", "url", "https://"+x.host+"/"), post(at, "key", x.key, "cron", x.host)...)
	case "POST /ui/recurrences/{key}/pause", "POST /ui/recurrences/{key}/resume", "POST /ui/recurrences/{key}/run",
		"POST /ui/recurrences/{key}/delete":
		return post("/ui/recurrences/" + url.PathEscape(x.key+"r") + pattern[strings.LastIndexByte(pattern, '/'):])
	case "GET /ui/dead":
		return get("/ui/dead", "/ui/dead?route="+q(x.route))
	case "GET /ui/dead/group":
		return get("/ui/dead/group?" + group)
	case "GET /ui/dead/redriven":
		return get("/ui/dead/redriven?job=abcdefghij&n=3&rate=5%2Fs&" + group)
	case "GET /ui/dead/download":
		return get("/ui/dead/download?" + group)
	case "GET /ui/audit":
		return get("/ui/audit", "/ui/audit?prefix="+q(x.prefix), "/ui/audit?prefix="+q(x.key), "/ui/audit?cursor="+q(x.key))
	case "GET /ui/language":
		return get("/ui/language?to=zh-CN&back="+q(x.key), "/ui/language?to="+q(x.key))
	case "GET /ui/sign-in":
		return get("/ui/sign-in", "/ui/sign-in?to="+q(x.key))
	case "GET /ui/portal/{token}":
		return get("/ui/portal/" + url.PathEscape(x.link))
	case "POST /ui/sign-in":
		return post("/ui/sign-in", "token", x.key, "to", x.key)
	case "POST /ui/opened":
		return post("/ui/opened")
	case "POST /ui/sign-out":
		return post("/ui/sign-out", "csrf", x.key) // with the right one it is over
	case "POST /ui/notices/{key}/reschedule":
		return append(post(notice+"/reschedule", "due", x.key), post(notice+"/reschedule", "due", "+20m")...)
	case "POST /ui/notices/{key}/cancel", "POST /ui/notices/{key}/fire", "POST /ui/notices/{key}/redrive", "POST /ui/notices/{key}/test":
		return post(notice + pattern[strings.LastIndexByte(pattern, '/'):])
	case "POST /ui/notices/{key}/resend":
		return post(notice+"/resend", "id", x.key, "ending", "1")
	case "POST /ui/dead/redrive", "POST /ui/dead/purge":
		return post(strings.TrimPrefix(pattern, "POST "), append(of, "rate", "5/s")...)
	case "POST /ui/routes/{name}/pause", "POST /ui/routes/{name}/resume":
		return post("/ui/routes/" + url.PathEscape(x.route) + pattern[strings.LastIndexByte(pattern, '/'):])
	}
	t.Fatalf("%s is a new page: say in asks how it is asked for", pattern)
	return nil
}

// every returns the requests of all pages for a subject. Requests that change something come last.
func (s *site) every(x subject) []ask {
	s.t.Helper()
	var reads, writes []ask
	for _, pattern := range s.pages.Patterns() {
		for _, a := range asks(s.t, pattern, x) {
			if a.method == http.MethodGet {
				reads = append(reads, a)
			} else {
				writes = append(writes, a)
			}
		}
	}
	return append(reads, writes...)
}

// ask sends a request, by default with the token of the session. It reads the first events of a stream.
func (s *site) ask(a ask) answer {
	s.t.Helper()
	if a.method == http.MethodGet {
		if strings.HasPrefix(a.path, "/ui/live/") {
			return s.stream(a.path)
		}
		return s.get(a.path)
	}
	var fields []string
	for name, v := range a.form {
		fields = append(fields, name, v[0])
	}
	return s.post(a.path, fields...)
}

// stream returns the first events of a stream.
func (s *site) stream(path string) answer {
	s.t.Helper()
	return s.streamIn("", path)
}

// streamIn is stream for a browser with a language.
func (s *site) streamIn(language, path string) answer {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Host = "localhost:8080"
	r.AddCookie(&http.Cookie{Name: "notifier_session", Value: s.cookie})
	if language != "" {
		r.AddCookie(&http.Cookie{Name: "notifier_language", Value: language})
	}
	w := &flow{ResponseRecorder: httptest.NewRecorder(), enough: cancel}
	s.pages.ServeHTTP(w, r)
	return answer{w.Result(), w.Body.String(), s.t, nil}
}

// flow receives a stream and ends it with the first event.
type flow struct {
	*httptest.ResponseRecorder
	once   sync.Once
	enough func()
}

func (f *flow) SetWriteDeadline(time.Time) error { return nil }

func (f *flow) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "data: ") {
		f.once.Do(f.enough)
	}
	return f.ResponseRecorder.Write(b)
}

// running runs the pages, which feeds their streams, until the test ends.
func (s *site) running() *site {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.pages.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	return s
}

package ui_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/callback"
	"notifier/internal/engine/enginetest"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

// Everything of the other client has this in its name.
const theirMark = "zeta"

var (
	myself    = auth.Client{Name: "me", Token: "token-of-me", Prefix: "app1", Role: auth.Admin}
	somebody  = auth.Client{Name: theirMark + "client", Token: "token-of-" + theirMark, Prefix: theirMark, Role: auth.Admin}
	everybody = auth.Client{Name: "ops", Token: "token-of-ops", Role: auth.Admin}
)

// scopedRoutes are routes of mine, of the other's, and one that both use.
func scopedRoutes(t testing.TB) *route.Table {
	t.Helper()
	make := func(name, prefix, target string) *route.Route {
		// A claim outlives the test on a slow machine too: after the lease its notice is overdue.
		r := &route.Route{Name: name, Prefix: prefix, Target: route.Target{Kind: route.KindNotice}, Ladder: notice.DefaultLadder,
			Timeout: 10 * time.Minute, Concurrency: 64, HostConcurrency: 16, Ack: route.Ack{Kind: route.Ack2xx}}
		if target != "" {
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			r.Target = route.Target{Kind: route.KindFixed, URL: u}
		}
		return r
	}
	table, err := route.NewTable([]*route.Route{make("orders", "app1:orders", ""), make("fixed", "app1:fixed", "https://erp.example/hook"),
		make(theirMark+"route", theirMark, ""), make(theirMark+"fixed", theirMark+":fixed", "https://"+theirMark+"erp.example/"),
		make("shared", "app3", "")})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// all states, with all that a notice can hold.
func keepAll(e *enginetest.Engine, table *route.Table, under, mark string, at time.Time) {
	states := []notice.State{notice.Scheduled, notice.Claimed, notice.Delivered, notice.Cancelled, notice.Dead, notice.Dead}
	for i, state := range states {
		key := fmt.Sprintf("%s%s%s%d", under, strings.Repeat(":"+mark, 3-strings.Count(under, ":")), "n", i)
		n := &notice.Notice{Key: key, Route: table.Match(key).Prefix, Made: notice.MadeAt(at.Add(-time.Hour)), Due: at.Add(30 * time.Minute),
			Content: notice.Content{URL: "https://" + mark + ".example/" + mark, Audience: mark, ContentType: "application/json", Body: []byte(`{"of":"` + mark + `"}`),
				Headers: []notice.Header{{Name: "x-" + mark, Value: mark}}}}
		f := store.Found{Notice: n, State: state}
		if state != notice.Scheduled {
			n.Add(notice.Attempt{Number: 1, At: at.Add(-time.Minute), Duration: time.Millisecond, Status: 500, Reason: notice.ReasonStatus5xx,
				Response: mark + " answers"})
		}
		if state != notice.Scheduled && state != notice.Claimed {
			f.SettledAt = at.Add(-time.Minute)
		}
		if state == notice.Dead {
			n.Reason = notice.ReasonStatus5xx
		}
		e.Add(f)
	}
}

// defineUnder stores a recurring notice under a prefix.
func defineUnder(t testing.TB, e *enginetest.Engine, table *route.Table, under, mark string, at time.Time) {
	t.Helper()
	// Its ticks are those of the test's time, so that they are the same in both worlds, and so late that no test reaches them.
	d := recur.Definition{Key: under + strings.Repeat(":"+mark, 3-strings.Count(under, ":")) + "n4r", Spec: recur.Spec{Every: time.Hour},
		From: at.AddDate(20, 0, 0)}
	if table.Match(d.Key).Target.Kind == route.KindNotice {
		d.Content.URL = "https://" + mark + ".example/" + mark
	}

	if _, _, err := e.Recurrences().Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// world returns an engine with the caller's notices, and with the other client's if theirs is not empty.
func world(t testing.TB, table *route.Table, at time.Time, mine, theirs []string) *enginetest.Engine {
	t.Helper()
	e := enginetest.New(t, table)
	note := func(entry audit.Entry) {
		if err := e.Audit(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
	}
	hold := func(prefix, host string) {
		r := receivers.Receiver{Prefix: prefix, Host: host}
		if err := errors.Join(e.PauseReceiver(t.Context(), "", r, time.Time{}, 0),
			e.LimitReceiver(t.Context(), "", receivers.Limit{Receiver: r, Rate: 42})); err != nil {
			t.Fatal(err)
		}
	}
	move := func(name, prefix string) {
		rule := jobs.Rule{From: "https://" + name + ".example/in", To: "https://new." + name + ".example/in", Prefix: prefix}
		x := jobs.Job{ID: "rdr_" + name, Client: name, Rule: rule, State: jobs.Stopped, Made: at, Changed: at}
		if err := (jobs.Store{Store: e.Store()}).Add(t.Context(), &x, jobs.MaxJobs); err != nil {
			t.Fatal(err)
		}
	}
	move("mine", mine[0])
	if len(theirs) > 0 {
		move(theirMark, theirs[0])
	}
	for _, prefix := range mine {
		keepAll(e, table, prefix, "mine", at)
		defineUnder(t, e, table, prefix, "mine", at)
		hold(prefix, "mine.example")
	}
	note(audit.Entry{Action: audit.Cancel, Key: "app1:orders:mine:minen3", Client: "me", Result: audit.Done})
	figures := fleet.Figures{Routes: map[string]fleet.RouteFigures{"app1:orders": {InFlight: 1, Work: late(3)}},
		Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "mine.example:443", Calls: 3}}}
	minute := map[string]fleet.Work{"app1:orders": late(3)}
	for _, prefix := range theirs {
		keepAll(e, table, prefix, theirMark, at)
		defineUnder(t, e, table, prefix, theirMark, at)
		hold(prefix, theirMark+".example")
		rt := table.Match(prefix + strings.Repeat(":x", 3-strings.Count(prefix, ":"))).Prefix
		note(audit.Entry{Action: audit.Purge, Route: theirMark + "route", Prefix: rt,
			Detail: "7 dead letters of host " + theirMark + ".example", Client: somebody.Name, Address: "203.0.113.77"})
		if rt == "app1:orders" { // its figures are of both, and a link shows none
			figures.Routes[rt], minute[rt] = fleet.RouteFigures{InFlight: 4343, Work: late(4242)}, late(4242)
		} else {
			figures.Routes[rt], minute[rt] = fleet.RouteFigures{InFlight: 4343, Work: late(4242)}, late(4242)
			note(audit.Entry{Action: audit.Cancel, Key: prefix + strings.Repeat(":"+theirMark, 3-strings.Count(prefix, ":")) + "n3",
				Client: somebody.Name})
		}
		figures.Hosts = append(figures.Hosts, fleet.HostFigures{Prefix: rt, Host: theirMark + ".example:443", Breaker: "open", Calls: 4242,
			Failed: 4242, Waiting: 9})
	}
	if len(theirs) > 0 {
		note(audit.Entry{Action: audit.SignIn, Prefix: theirMark, Client: somebody.Name})
		if err := e.Pause(t.Context(), theirMark); err != nil {
			t.Fatal(err)
		}
		e.Leave(theirMark+"gone", theirMark+"gone:a:b:c")
	}
	e.Tell(figures, fleet.Instance{ID: "b", About: fleet.About{Label: theirMark + "host"}, State: fleet.Alive}) // which publishes no figures
	e.SetMinutes(fleet.Minute{Instance: "a", At: at.Truncate(time.Minute).UnixMilli(), Routes: minute})
	return e
}

// visiting returns the pages over an engine, for a visitor with a cookie.
func visiting(t testing.TB, e *enginetest.Engine, table *route.Table, at time.Time,
	enter func(*auth.Sessions) (string, *auth.Session, error)) *site {
	t.Helper()
	office := auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey), Register: e,
		Clients: auth.NewClients([]auth.Client{myself, somebody, everybody,
			{Name: "part", Token: "token-of-part", Prefix: "app3:mine", Role: auth.Admin}})})
	cookie, who, err := enter(office)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, engine: e, table: table, cookie: cookie, csrf: who.CSRF()}
	s.pages = ui.New(ui.Options{Engine: e, Routes: table, Sessions: office, Loopback: true, Version: "test",
		Recurrences: e.Recurrences(), Now: func() time.Time { return at }, History: archiveOf(e, at),
		Health: healthOf(e, at), Replays: replaysOf(e, at),
		Tests: api.NewTestSender(api.TestOptions{Routes: table, Now: func() time.Time { return at },
			Probe: func(context.Context, *route.Route, *notice.Notice) callback.Exchange {
				return callback.Exchange{Status: 200, ResponseBody: "thanks", Result: notice.DeliveredResult(200)}
			}})})
	return s.running()
}

// archiveOf is a history of the notices that have settled or died.
func archiveOf(e *enginetest.Engine, at time.Time) *archive {
	a := &archive{}
	all := e.All()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		f := all[key]
		if f.SettledAt.IsZero() {
			continue
		}
		u, _ := url.Parse(f.URL) // an address of these tests
		a.rows = append(a.rows, history.Row{Notice: f.Notice, Outcome: notice.Ending(f.State), Number: 1, Ended: at.Add(-time.Hour),
			Host: u.Hostname(), BodyKept: true})
	}
	return a
}

// healthOf is a health in which each host that has dead letters of a route fails.
func healthOf(e *enginetest.Engine, at time.Time) *physician {
	p, by := &physician{day: receivers.Day{Hours: []receivers.Hour{{At: at.Truncate(time.Hour), Attempts: 3, Failed: 2}}}},
		map[string]map[string]bool{}
	for _, f := range e.All() {
		if f.State == notice.Dead {
			if by[f.Route] == nil {
				by[f.Route] = map[string]bool{}
			}
			u, _ := url.Parse(f.URL) // an address of these tests
			by[f.Route][u.Hostname()] = true
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(by)) {
		r := receivers.RouteHealth{Prefix: prefix, Counted: at}
		for _, host := range slices.Sorted(maps.Keys(by[prefix])) {
			r.Receivers = append(r.Receivers, receivers.Health{Name: host + ":443", Since: at.Add(-time.Hour), Failures: 3, LastAttempt: at,
				Status: 500, Reason: "status_5xx", Waiting: 2, Next: at})
		}
		p.routes = append(p.routes, r)
	}
	return p
}

// replaysOf are replays of each prefix that has dead letters.
func replaysOf(e *enginetest.Engine, at time.Time) *replayer {
	x := &replayer{now: at}
	for _, r := range healthOf(e, at).routes {
		mark := "mine"
		if strings.Contains(r.Prefix, theirMark) || r.Prefix == "app3" {
			mark = theirMark
		}
		about := history.ReplayAbout{Since: at.Add(-time.Hour), Until: at, Rate: 1}
		x.list = append(x.list, &history.Replay{ID: "rpl_" + mark, Name: mark, Client: mark, Prefix: r.Prefix, State: history.ReplayStopped,
			Total: 4242, Made: at, ReplayAbout: about})
	}
	return x
}

// passing matches the parts that differ between equal pages although the pages' clock is stopped: cursors,
// and times of the engine or a session.
var passing = regexp.MustCompile(`(?:cursor|before|past|job)=[^"&]*|\brpl_[a-z0-9]{20}\b|\b(?:in )?(?:\d+(?:\.\d+)?[dhmsµn]+)+(?: ago)?\b|\bnow\b|\d\d:\d\d(?::\d\d(?:\.\d+Z?)?)?|Expires=[^;]*|Max-Age=\d+`)

// Two scopes do not see each other. No page, header or stream contains a name of the other scope, and
// every answer, count and chart equals the one without the other scope. The list of pages is that of the
// mux.
func TestScopesAreIsolatedOnEveryPage(t *testing.T) {
	link := func(by auth.Client, scope auth.LinkScope) func(*auth.Sessions) (string, *auth.Session, error) {
		return func(o *auth.Sessions) (string, *auth.Session, error) {
			l, err := o.MakeLink(context.Background(), auth.Caller{Name: by.Name, Prefix: by.Prefix}, scope, time.Hour)
			if err != nil {
				return "", nil, err
			}
			return o.Enter(context.Background(), l.Token)
		}
	}
	signIn := func(token string) func(*auth.Sessions) (string, *auth.Session, error) {
		return func(o *auth.Sessions) (string, *auth.Session, error) {
			return o.SignIn(context.Background(), token, "192.0.2.1")
		}
	}
	for name, c := range map[string]struct {
		enter        func(*auth.Sessions) (string, *auth.Session, error)
		mine, theirs []string
	}{
		"a client": {signIn(myself.Token), []string{"app1:orders", "app1:fixed"},
			[]string{theirMark, theirMark + ":fixed", "app3:" + theirMark}},
		"a client of part of a route": {signIn("token-of-part"), []string{"app3:mine"}, []string{theirMark, "app3:" + theirMark, "app1:orders"}},
		"a link by prefix": {link(myself, auth.LinkScope{Prefix: "app1:orders:mine"}), []string{"app1:orders:mine"},
			[]string{theirMark, "app1:orders:" + theirMark}},
		"a link by host": {link(myself, auth.LinkScope{Prefix: "app1:orders", Host: "mine.example"}), []string{"app1:orders"},
			[]string{theirMark, "app1:orders:" + theirMark}},
		"a link by audience": {link(myself, auth.LinkScope{Prefix: "app1", Audience: "mine"}), []string{"app1:orders"},
			[]string{theirMark, "app1:orders:" + theirMark}},
		"a link by host, of all": {link(everybody, auth.LinkScope{Prefix: "app3", Host: "mine.example"}), []string{"app3:mine"},
			[]string{theirMark, "app3:" + theirMark}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, at := scopedRoutes(t), time.Now().UTC().Truncate(time.Millisecond)
			alone := visiting(t, world(t, table, at, c.mine, nil), table, at, c.enter)
			both := visiting(t, world(t, table, at, c.mine, c.theirs), table, at, c.enter)
			before := theirNotices(both.engine)
			own := subject{key: c.mine[0] + strings.Repeat(":mine", 3-strings.Count(c.mine[0], ":")) + "n4", reason: "status_5xx",
				host: "mine.example", link: "x"}
			other := subject{key: c.theirs[0] + strings.Repeat(":"+theirMark, 3-strings.Count(c.theirs[0], ":")) + "n4", reason: "status_5xx",
				host: theirMark + ".example", link: "x"}
			last := c.theirs[len(c.theirs)-1]
			near := other
			near.key = last + strings.Repeat(":"+theirMark, 3-strings.Count(last, ":")) + "n4"
			for _, x := range []*subject{&own, &other, &near} {
				rt := table.Match(x.key)
				x.route, x.prefix = rt.Name, rt.Prefix
			}
			// All changes come last: the first page shows figures of up to a second ago, before the change or after it.
			subjects := []subject{own, other, near}
			for phase := range 2 * len(subjects) {
				i, changes := phase%len(subjects), phase >= len(subjects)
				for _, a := range both.every(subjects[i]) {
					if changes != (a.method != http.MethodGet) {
						continue
					}
					got, want := withHeaders(both, both.askFresh(a)), withHeaders(alone, alone.askFresh(a))
					if got != want { // compared only on failure, since it takes long
						got, want = passing.ReplaceAllString(got, "~"), passing.ReplaceAllString(want, "~")
					}
					if got != want {
						i, j := firstDifference(got, want)
						t.Fatalf("%s is answered otherwise because the other is there:\n…%s\nwant\n…%s", a, i, j)
					}
					if i == 0 && strings.Contains(strings.ToLower(got), theirMark) {
						t.Errorf("%s tells of the other: %s", a, got)
					}
				}
			}
			if after := theirNotices(both.engine); !maps.Equal(before, after) {
				t.Errorf("notices of the other were changed: %v, before %v", after, before)
			}
		})
	}
}

// withHeaders returns an answer with its headers, without the token of the session.
func withHeaders(s *site, a answer) string {
	var head strings.Builder
	h := a.Header.Clone()
	h.Del("Content-Length")
	h.Del("Date")
	if err := h.Write(&head); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%d\n", a.StatusCode) + strings.ReplaceAll(head.String()+"\n"+a.body, s.csrf, "")
}

// askFresh asks for a page again while it says that its figures are outdated, as on a machine so busy that they are not read
// within the sampler's time limit.
func (s *site) askFresh(a ask) answer {
	s.t.Helper()
	for {
		got := s.ask(a)
		if a.method != http.MethodGet || !strings.Contains(got.body, "data-stale") {
			return got
		}
	}
}

// firstDifference returns where two texts start to differ, with the text around it.
func firstDifference(a, b string) (of, from string) {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	i = max(i-100, 0)
	return a[i:min(len(a), i+400)], b[i:min(len(b), i+400)]
}

// theirNotices are the states of the other's notices.
func theirNotices(e *enginetest.Engine) map[string]string {
	out := map[string]string{}
	for key, f := range e.All() {
		if strings.Contains(key, theirMark) {
			out[key] = fmt.Sprintf("%s %s", f.State, f.Due)
		}
	}
	return out
}

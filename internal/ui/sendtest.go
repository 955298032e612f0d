package ui

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"notifier/internal/audit"
	"notifier/internal/callback"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
)

type testPage struct {
	Key      string
	Exchange callback.Exchange
	Host     string // in place of the exchange, for a visitor who does not see everything
	Level    level
	Says     string
	Next     string
	Took     string
	Answer   string
}

// sendTest makes one signed call to where a notice goes, with a body that says that
// it is a test, and shows it. The notice stays as it is. A visitor who does not see
// everything is shown host and status: the route's address and headers are the operator's.
func (p *Pages) sendTest(w http.ResponseWriter, r *http.Request, v Visitor) error {
	f, err := p.find(r, v)
	if err != nil {
		return err
	}
	rt := p.o.Routes.Prefix(f.Route)
	if p.o.Probe == nil || rt == nil || rt.Target.Kind != route.KindFixed && rt.Target.Kind != route.KindNotice {
		return failure{http.StatusConflict, "Notices of this route are not called for over HTTP, so no test can be sent."}
	}
	if wait, ok := p.tests.admit(v.Client, rt, p.now()); !ok {
		setRetryAfter(w, wait)
		return failure{http.StatusTooManyRequests, "Too many tests of this route by this client, nothing was sent. Try again in " + notice.Short(wait.Truncate(time.Second)+time.Second) + "."}
	}
	now := p.now().UTC()
	key := rt.Prefix + strings.Repeat(":test", 4-len(strings.Split(rt.Prefix, ":")))
	ctx := r.Context()
	if rt.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rt.Timeout)
		defer cancel()
	}
	body, typ := rt.TestContent()
	x := p.o.Probe(ctx, rt, &notice.Notice{Key: key, Route: rt.Prefix, Made: notice.MadeAt(now), Due: now,
		Content: notice.Content{URL: f.URL, Audience: f.Audience, Method: f.Method, Body: body, ContentType: typ}})
	p.note(r, v, audit.Entry{Action: audit.SendTest, Key: f.Key, Detail: cmp.Or(string(x.Result.Reason), string(x.Result.Outcome))}, nil)
	content := p.view(&f)
	if x.Method == http.MethodGet && !p.o.Mask.None() {
		x.Signed = nil // it is the address's query, of which some may be masked
	}
	x.URL, _ = content.Address(x.URL) // the probe has taken out what is named like a secret
	brought := map[string]bool{}
	for _, h := range f.Headers {
		brought[strings.ToLower(h.Name)] = true
	}
	for i, h := range x.RequestHeaders { // where all is masked, what the service itself adds is shown still
		if brought[strings.ToLower(h.Name)] || !p.o.Mask.All() {
			x.RequestHeaders[i].Value, _ = content.Header(h.Name, h.Value)
		}
	}
	for i, h := range x.ResponseHeaders {
		x.ResponseHeaders[i].Value = answer(h.Value, content)
		if _, whole := content.Header(h.Name, h.Value); !whole {
			x.ResponseHeaders[i].Value = mask.Hidden
		}
	}
	page := testPage{Key: f.Key, Exchange: x, Level: wrong, Says: "The receiver did not acknowledge the test: " + cmp.Or(string(x.Result.Reason), string(x.Result.Outcome)) + ".",
		Took: rough(x.Duration), Answer: answer(cmp.Or(x.ResponseBody, x.Result.Response), content)}
	if !v.All() {
		page.Exchange, page.Answer = callback.Exchange{Status: x.Status}, ""
		page.Host = cmp.Or(p.hostOf(&f), "the receiver")
	}
	if x.Result.Outcome == notice.OutcomeDelivered {
		page.Level, page.Says = fine, "The receiver acknowledged the test."
	}
	switch {
	case x.Final:
		page.Next = "A notice with this answer would become a dead letter; it would not be retried."
	case x.Next > 0:
		page.Next = "A notice with this answer would be retried in " + notice.Short(x.Next) + "."
	}
	return p.render(w, r, http.StatusOK, view{Template: "test", Title: "Test", Section: "Notices", Visitor: v, Data: page})
}

package ui

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"notifier/internal/api"
	"notifier/internal/callback"
	"notifier/internal/notice"
)

type testPage struct {
	Key      string
	Exchange callback.Exchange
	Host     string // instead of the exchange, for visitors with a prefix
	Level    level
	Says     text
	Next     text
	Took     time.Duration
	Answer   string
}

// sendTest sends one signed test call to the receiver of a notice and shows the exchange.
func (p *Pages) sendTest(w http.ResponseWriter, r *http.Request, v Visitor) error {
	f, err := p.find(r, v)
	if err != nil {
		return err
	}

	x, err := p.o.Tests.Send(r.Context(), api.TestCaller{Name: v.Client, All: v.All()}, &f)
	var limit *api.TestLimitError
	switch {
	case errors.As(err, &limit):
		setRetryAfter(w, limit.Wait)
		return failure{http.StatusTooManyRequests,
			say("Too many tests of this route by this client. Nothing was sent. Try again in %s.", limit.Seconds())}
	case errors.Is(err, api.ErrTestSealed):
		return failure{http.StatusConflict, say("The notice is sealed and does not open, so no test can be sent.")}
	case err != nil:
		return failure{http.StatusConflict, say("The route does not deliver over HTTP, so no test can be sent.")}
	}

	p.note(r, v, x.Entry(f.Key), nil)
	page := testPageOf(f.Key, x)
	return p.render(w, r, http.StatusOK, view{Title: say("Test"), Section: say("Notices"), Visitor: v, Content: testContent(page)})
}

func testPageOf(key string, x *api.TestResult) testPage {
	page := testPage{Key: key, Exchange: x.Exchange, Took: x.Took, Answer: x.Answer, Level: wrong,
		Says: say("The receiver did not acknowledge the test: %s.", x.Said())}
	if x.Limited {
		page.Host = cmp.Or(x.Host, "–")
	}

	if x.Outcome == notice.OutcomeDelivered {
		page.Level, page.Says = fine, say("The receiver acknowledged the test.")
	}

	switch {
	case x.Final:
		page.Next = say("A notice with this response would become a dead letter without a retry.")
	case x.Next > 0:
		page.Next = say("A notice with this response would be retried in %s.", x.Next)
	}

	return page
}

// messageText is the headers and the body of a request or response.
func messageText(headers []notice.Header, body string) string {
	var b strings.Builder
	for _, h := range headers {
		b.WriteString(h.Name + ": " + h.Value + "\n")
	}

	return b.String() + "\n" + body
}

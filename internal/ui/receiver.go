package ui

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
)

// receiverPage is one receiver with the routes that call it.
type receiverPage struct {
	Receiver string
	Routes   []receiverOfRoute
	Stale    text
	Missing  text
	Holds    []holdRow
	Hold     *holdForm // nil without the right to pause it
	History  string    // the address of a search in the history; empty = there is none
}

// receiverOfRoute is the health of a receiver on one route.
type receiverOfRoute struct {
	hostRow
	Anchor      string
	Level       level
	Headline    text
	LastSuccess stamp
	NoSuccess   text // instead of LastSuccess
	LastAttempt stamp
	LastAnswer  text
	Next        stamp // attempt of a waiting notice
	Stopped     bool  // no attempt is made until the receiver is resumed
	Counted     stamp // when the waiting notices were counted
	Dead        text
	DayWrong    text
	Day, Delay  chart
	Answers     []answerRow
	Texts       []answerSaid
	// Waits and Letters are the addresses of the waiting notices and the dead letters.
	Waits, Letters string
	Redeliver      string // the address of the form; empty without the right to redrive
}

// answerRow is one of the last responses.
type answerRow struct {
	At     stamp
	Level  level
	Answer text
	Took   text
}

// showReceiver serves the page of a receiver.
func (p *Pages) showReceiver(w http.ResponseWriter, r *http.Request, v Visitor) error {
	name := r.PathValue("receiver")
	b := p.sampler.Current(r.Context())
	page := receiverPage{Receiver: name, Stale: p.stale(b, v), Missing: silent(b, v)}
	for _, h := range p.hostsOf(b, v, name) {
		row, err := p.receiverOfRoute(r.Context(), b, h, v)
		if err != nil {
			return err
		}

		page.Routes = append(page.Routes, row)
	}

	page.Holds, _ = p.holdsOf(b, v, name, nil)
	page.Hold = holdForms(&page, v)
	if len(page.Routes) == 0 && len(page.Holds) == 0 && page.Stale == nil {
		return failure{http.StatusNotFound, say("No data for this receiver: it was not called in the last minutes, and did not fail within 48 " +
			"hours.")}
	}

	if host, err := notice.Host(receivers.Host(name)); p.o.History != nil && err == nil {
		page.History = Root + "notices?" + url.Values{"host": {host}, "history": {"1"}}.Encode() + "#history"
	}

	return p.render(w, r, http.StatusOK, view{Title: plain(receivers.Title(name)), Section: say("Receivers"), Visitor: v,
		Content: receiverContent(page)})
}

// silent returns the sentence about instances whose metrics are missing or incomplete; nil if there are none. As in the API, only
// visitors who see all notices see the labels of instances.
func silent(b *problems.Board, v Visitor) text {
	var labels []string
	for _, i := range b.Instances {
		if !i.Tells || i.Figures.Cut {
			labels = append(labels, i.Label)
		}
	}

	switch {
	case len(labels) == 0:
		return nil
	case !v.All():
		return say("Metrics of %s instance(s) are missing or incomplete.", len(labels))
	}

	return say("Metrics of %s instance(s) are missing or incomplete: %s.", len(labels), labels)
}

func (p *Pages) receiverOfRoute(ctx context.Context, b *problems.Board, h hostRow, v Visitor) (receiverOfRoute, error) {
	x := &h.Health
	row := receiverOfRoute{hostRow: h, Anchor: anchor("route-" + h.Prefix), LastSuccess: p.stamp(x.LastSuccess),
		LastAttempt: p.stamp(x.LastAttempt), Next: p.stamp(x.Next), NoSuccess: text(problems.NoSuccess(x, b.At))}
	if row.Stopped = b.Stopped(h.Prefix, h.Host); x.Next.Before(b.At) { // the attempt has started since the count
		row.Next = stamp{}
	}

	if row.Level, row.Headline = h.Level, h.Says; h.Level == "" {
		row.Level = fine
	}

	if !x.LastAttempt.IsZero() {
		row.LastAnswer = lastAnswer(x)
	}

	for i := range b.Health {
		if b.Health[i].Prefix == h.Prefix {
			row.Counted = p.stamp(b.Health[i].Counted)
		}
	}

	host := h.Name
	if rt := p.o.Routes.Prefix(h.Prefix); rt != nil && rt.Target.Kind != route.KindNotice {
		host = "" // all notices of the route have this receiver
	}

	row.Waits = noticesPath(pairsOf("route", h.Route, "state", string(notice.Scheduled), "host", host)...)
	row.Letters = noticesPath(pairsOf("route", h.Route, "state", string(notice.Dead), "host", host)...)
	if v.May(auth.Operate) && p.o.Routes.Prefix(h.Prefix) != nil {
		since := ""
		if h.Health.Failing() {
			since = h.Health.Since.Format(time.RFC3339)
		}

		row.Redeliver = receiverPath(h.Host) + "/redeliver?" + url.Values{"route": {h.Route}, "since": {since}}.Encode()
	}

	var err error
	texts := saidTexts{p: p, v: v}
	if row.Dead, err = p.deadAt(ctx, h.Route, host, &texts); err != nil {
		return row, err
	}

	if row.Waiting > 0 {
		if err = texts.addWaiting(ctx, h.Route, host); err != nil {
			return row, err
		}
	}

	row.Texts = texts.list

	p.addDay(ctx, &row)
	return row, nil
}

// pairsOf drops the pairs of a name and a value whose value is empty.
func pairsOf(pairs ...string) (out []string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, pairs[i], pairs[i+1])
		}
	}
	return out
}

// deadAt counts the dead letters of a route and host, within the limit of a search, and adds the texts of their answers.
func (p *Pages) deadAt(ctx context.Context, route, host string, texts *saidTexts) (text, error) {
	q, _, err := p.query(ctx, filter{Route: route, State: notice.Dead, Host: host}, texts.v)
	if err != nil {
		return nil, err
	}

	n := 0
	got, err := p.eachDead(ctx, q, texts.v, searchTime, func(list []store.Found) bool {
		n += len(list)
		texts.add(list)
		return true
	})
	if got.cursor != "" || len(got.missing) > 0 {
		return say("at least %s", n), err
	}

	return plain(n), err
}

// addDay adds the responses of a day.
func (p *Pages) addDay(ctx context.Context, row *receiverOfRoute) {
	var day receivers.Day
	if p.o.Health != nil {
		var err error
		if day, err = p.o.Health.ReceiverDay(ctx, row.Prefix, row.Host); err != nil {
			row.DayWrong = p.failure(ctx, err).text
			return
		}
	}

	row.Day, row.Delay = dayCharts(day.Hours, p.now())
	for _, a := range day.Answers {
		line := answerRow{At: p.stamp(a.At), Level: fine, Answer: answerText(a.Status, notice.Reason(a.Reason)), Took: wholeMS(a.Took)}
		if a.Failed {
			line.Level = wrong
		}

		row.Answers = append(row.Answers, line)
	}
}

// wholeMS returns a duration that is known in whole milliseconds.
func wholeMS(d time.Duration) text {
	if d < time.Millisecond {
		return say("< %s", time.Millisecond)
	}
	return plain(d)
}

// dayCharts draws the attempts of the last 24 hours and their latency.
func dayCharts(hours []receivers.Hour, now time.Time) (attempts, latency chart) {
	const count, height = 24, 104.0
	wide := problems.Spans * cellWidth / count
	first := now.UTC().Truncate(time.Hour).Add(-(count - 1) * time.Hour)
	attempts = chart{W: chartWidth, H: height + chartBottom + 4, Hourly: true, Title: say("Attempts, last 24 hours")}
	latency = chart{W: chartWidth, H: height + chartBottom + 4, Hourly: true, Title: say("Latency, last 24 hours")}
	if len(hours) > 0 && hours[0].At.After(first) { // nothing is recorded of a receiver that does not fail
		begin := hours[0].At.Format("15:04")
		attempts.Title = say("Attempts since the hour of its first failure, %s UTC", begin)
		latency.Title = say("Latency since the hour of its first failure, %s UTC", begin)
	}

	most, slowest, total, failed, took := 0, time.Duration(0), 0, 0, time.Duration(0)
	for _, h := range hours {
		most, slowest = max(most, h.Attempts), max(slowest, h.Mean)
		total, failed, took = total+h.Attempts, failed+h.Failed, took+h.Mean*time.Duration(h.Attempts)
	}

	for _, h := range hours {
		x := chartLeft + float64(h.At.Sub(first)/time.Hour)*wide
		if x < chartLeft {
			continue
		}

		text := say("%s: %s attempt(s), %s failed", h.At.Format("15:04"), h.Attempts, h.Failed)
		all := max(2, float64(h.Attempts)/float64(most)*(height-8))
		bad := all * float64(h.Failed) / float64(h.Attempts)
		attempts.box("bar", x, height-all, wide-2, all-bad)
		attempts.box("fail", x, height-bad, wide-2, bad)
		attempts.Spans = append(attempts.Spans, span{x, text})
		tall := max(2, float64(h.Mean)/float64(max(slowest, 1))*(height-8))
		latency.box("bar", x, height-tall, wide-2, tall)
		latency.Spans = append(latency.Spans, span{x, say("%s: %s", h.At.Format("15:04"), wholeMS(h.Mean))})
	}

	for _, c := range []*chart{&attempts, &latency} {
		c.box("axis", chartLeft, height, problems.Spans*cellWidth, 1)
		c.Labels = append(c.Labels, label{chartLeft - 6, height, plain(0), "end"},
			label{chartLeft, height + 14, plain(first.Format("15:04")), "start"},
			label{chartLeft + problems.Spans*cellWidth/2, height + 14, plain(first.Add(count / 2 * time.Hour).Format("15:04")), "middle"},
			label{chartLeft + problems.Spans*cellWidth, height + 14, say("now"), "end"})
	}

	if total == 0 {
		none := say("No attempts since the first failure.")
		attempts.Summary, latency.Summary = none, none
		return attempts, latency
	}

	attempts.Labels = append(attempts.Labels, label{chartLeft - 6, 14, plain(most), "end"})
	latency.Labels = append(latency.Labels, label{chartLeft - 6, 14, wholeMS(slowest), "end"})
	attempts.Summary = say("%s attempt(s), %s failed (%s %).", total, failed, trimmed(100*float64(failed)/float64(total)))
	latency.Summary = say("Mean %s, slowest hour %s.", wholeMS(took/time.Duration(total)), wholeMS(slowest))
	return attempts, latency
}

package ui

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"notifier/internal/problems"
	"notifier/internal/receivers"
)

// receiversPerPage is the number of receivers on a page of the list.
const receiversPerPage = 50

// receiverFilter is the part of the list of receivers that a page shows.
type receiverFilter struct {
	receivers.Selection
	Route string
	Page  int // from 1
}

func receiverFilterOf(q url.Values) receiverFilter {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	page, err := strconv.Atoi(get("page"))
	if err != nil {
		page = 1
	}

	return receiverFilter{receivers.Selection{Contains: get("q"), State: receivers.State(get("state")), Reason: get("reason")}, get("route"),
		max(1, page)}
}

// values returns the query of the filter, without empty parameters.
func (f receiverFilter) values() url.Values {
	v := problems.ReceiverValues(f.Route, f.Selection)
	if f.Page > 1 {
		v.Set("page", strconv.Itoa(f.Page))
	}

	return v
}

// Asked reports whether the filter leaves out receivers.
func (f receiverFilter) Asked() bool { return f.Selection != receivers.Selection{} || f.Route != "" }

// query returns the query of a page with the filter, with its question mark; empty for the first page of all.
func (f receiverFilter) query(page int) string {
	f.Page = page
	if q := f.values().Encode(); q != "" {
		return "?" + q
	}

	return ""
}

// receiverList is one page of the list of receivers.
type receiverList struct {
	receiverFilter
	Hosts      []hostRow
	First      int // the number of the first receiver on the page, from 1
	Total      int
	Failing    int    // of Total
	All        int    // without the filter
	Next, Back string // addresses; empty = there is none
	Unlisted   int    // failing receivers for which the health has no place
}

// listOf returns the page of receivers that a filter selects.
func (p *Pages) listOf(b *problems.Board, v Visitor, f receiverFilter) receiverList {
	rows, failing := p.hostsOf(b, v, ""), receivers.Selection{State: receivers.StateFailing}
	out := receiverList{receiverFilter: f, All: len(rows)}
	for i := range b.Health {
		if v.Owns(b.Health[i].Prefix) {
			out.Unlisted += b.Health[i].Others
		}
	}

	rows = slices.DeleteFunc(rows, func(h hostRow) bool {
		one := h.listed()
		has := f.Has(&one) && (f.Route == "" || f.Route == h.Route)
		if has && failing.Has(&one) {
			out.Failing++
		}

		return !has
	})
	out.Total = len(rows)
	pages := max(1, (len(rows)+receiversPerPage-1)/receiversPerPage)
	out.Page = min(f.Page, pages)
	out.First = (out.Page-1)*receiversPerPage + 1
	out.Hosts = rows[out.First-1 : min(len(rows), out.First-1+receiversPerPage)]
	if out.Page > 1 {
		out.Back = Root + "receivers" + f.query(out.Page-1)
	}

	if out.Page < pages {
		out.Next = Root + "receivers" + f.query(out.Page+1)
	}

	return out
}

// listed is the receiver as lists order and select it.
func (h *hostRow) listed() receivers.Listed {
	return receivers.Listed{Name: h.Host, Tie: h.Prefix, Since: h.Health.Since, LastAttempt: h.Health.LastAttempt, Reason: h.Health.Reason,
		Waiting: h.Waiting, Broken: h.Breaker != "", Paused: h.Paused, Limited: h.limits() != nil}
}

// listedState is the word for a state of receivers in lists.
func listedState(s receivers.State) text {
	words := map[receivers.State]text{receivers.StateFailing: say("failing"), receivers.StatePaused: say("paused"),
		receivers.StateLimited:   say("limited"),
		receivers.StateRecovered: say("recovered")}
	return words[s]
}

package api

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/search"
)

var (
	searchBox = []parameter{
		{"q", "Words, all of which must match: an order number (the beginning of the last segment of a key), a key or its beginning, a " +
			"webhook-id, a host, a state (failed is dead), a time (7d, yesterday 10-11, 2026-11-22 09:30-10:15, or two RFC 3339 times with a " +
			"slash between them; 7d lasts until now), host=, route=, reason=, state=, part=, id=, since=, until=, " +
			"or text, in quotation marks if it could be one of these. Text needs a time, and so does part= in a file or the history.",
			"failed yesterday 10-11"},
		{"zone", "The IANA time zone of the times in q; UTC if absent.", "Asia/Shanghai"},
	}
	searchParams = append(append([]parameter{}, searchBox...),
		parameter{"limit", "1 to 200 of each section, 50 if absent.", "50"},
		parameter{"redis_cursor", "The cursor of the section of Redis.", ""},
		parameter{"history_cursor", "The cursor of the section of the history.", ""})
)

const (
	searchPage = 50
	searchMost = 200
	csvType    = search.FileType
)

// SearchAnswer answers GET /v1/search.
type SearchAnswer struct {
	Redis   SearchedRedis   `json:"redis" doc:"The notices in Redis."`
	History SearchedHistory `json:"history" doc:"The entries of the history that the section of Redis does not have."`
}

// SearchedSection is the part that both sections have.
type SearchedSection struct {
	Total  int    `json:"total" doc:"Of all pages; the history's includes the entries that the section of Redis has."`
	Exact  bool   `json:"exact" doc:"false: there are more than total, or the search is not finished."`
	Note   string `json:"note,omitempty" doc:"Why the section was not searched, and what would be right."`
	Cursor string `json:"cursor,omitempty" doc:"Pass this to get the next page of this section. Absent on the last page."`
}

// SearchedRedis is the section of Redis.
type SearchedRedis struct {
	SearchedSection
	Items     []codec.Notice `json:"items"`
	InHistory []string       `json:"in_history,omitempty" doc:"The keys of the items that the history has too."`
	Missing
}

// SearchedHistory is the section of the history.
type SearchedHistory struct {
	SearchedSection
	Items []codec.Ending `json:"items" doc:"Latest first."`
}

// scope limits a search to the notices of the caller.
func (s site) scope() search.Scope { return search.Scope{Caller: s.Caller} }

// zoneParam reads the parameter zone.
func zoneParam(values url.Values, f *codec.Faults) *time.Location {
	s := values.Get("zone")
	at, err := time.LoadLocation(s)
	if err != nil || s == "Local" {
		f.Add("query.zone", codec.Clip(s, 60), "want an IANA time zone such as Asia/Shanghai")
		return time.UTC
	}

	return at
}

// boxOf reads the parameters q and zone.
func (a *api) boxOf(values url.Values, f *codec.Faults) search.Query {
	q, err := search.Parse(values.Get("q"), a.now().In(zoneParam(values, f)))
	if err != nil {
		f.Add("query.q", codec.Clip(values.Get("q"), 100), "%s", codec.Clip(err.Error(), 300))
	}

	return q
}

// search serves GET /v1/search.
func (a *api) search(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, searchParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	q, limit := a.boxOf(values, &f), limitUpTo(searchMost, searchPage, values, &f)
	if p := refusal(f); p != nil {
		return p
	}

	rest := maps.Clone(values)
	delete(rest, "redis_cursor")
	delete(rest, "history_cursor")
	live, past := a.cursors("search redis", at, rest), a.cursors("search history", at, rest)
	page := search.Page{Limit: limit}
	var err error
	if page.Live, err = live.open(r.Context(), values.Get("redis_cursor")); err != nil {
		return err
	}
	if page.Past, err = past.open(r.Context(), values.Get("history_cursor")); err != nil {
		return err
	}

	got, err := a.searcher.Search(r.Context(), q, at.scope(), page)
	if err != nil {
		return err
	}
	if got.Live.Err != nil {
		return got.Live.Err
	}
	if p := a.unsearched(&got); p != nil {
		return p
	}

	out := a.searched(r, at, &got)
	if out.Redis.Cursor, err = live.seal(r.Context(), got.Live.Cursor); err != nil {
		return err
	}
	if out.History.Cursor, err = past.seal(r.Context(), got.Past.Cursor); err != nil {
		return err
	}

	return writeRaw(w, http.StatusOK, "application/json", append(codec.Append(nil, out), '\n'))
}

// unsearched is the answer if no section was searched.
func (a *api) unsearched(got *search.Answer) error {
	if got.Live.Why == search.Searched {
		return nil
	}
	if got.Past.Err != nil {
		return a.historyProblem(got.Past.Err)
	}

	if got.Past.Why == search.NeedsTime || got.Past.Why == search.NoHistory {
		var f codec.Faults
		f.Add("query.q", nil, "%s", note(got.Past.Why))
		return refusal(f)
	}

	return nil
}

// note says why a section was not searched; empty if it was.
func note(w search.Why) string {
	switch w {
	case search.NoHistory:
		return "this instance has no history: NOTIFIER_HISTORY_URL is not set"
	case search.TextInHistory:
		return "text is searched in the history only"
	case search.OnlyHistory:
		return "only the history has replaced notices"
	case search.OnlyRedis:
		return "only Redis has pending notices"
	case search.NeedsTime:
		return "text and parts of a key need a time: add 7d or yesterday 10-11"
	case search.Failed:
		return "the history does not answer: repeat the call, with a shorter time"
	}
	return ""
}

// searched returns the answer of both sections, without cursors.
func (a *api) searched(r *http.Request, at site, got *search.Answer) *SearchAnswer {
	out := &SearchAnswer{Redis: SearchedRedis{Items: []codec.Notice{}}, History: SearchedHistory{Items: []codec.Ending{}}}
	out.Redis.SearchedSection = SearchedSection{Total: got.Live.Total.N, Exact: got.Live.Total.Exact, Note: note(got.Live.Why)}
	out.History.SearchedSection = SearchedSection{Total: got.Past.Total.N, Exact: got.Past.Total.Exact, Note: note(got.Past.Why)}
	out.Redis.Missing = at.missing(got.Live.Missing)
	for i := range got.Live.Items {
		x := &got.Live.Items[i]
		if out.Redis.Items = append(out.Redis.Items, a.wholeFor(r.Context(), at, x)); got.Live.Marked(x) {
			out.Redis.InHistory = append(out.Redis.InHistory, x.Key)
		}
	}

	for i := range got.Past.Rows {
		out.History.Items = append(out.History.Items, a.ending(r.Context(), at, &got.Past.Rows[i]))
	}

	if got.Past.Err != nil {
		a.log.Debug("cannot search the history", zap.Error(got.Past.Err))
	}

	return out
}

// searchFile serves GET /v1/search.csv.
func (a *api) searchFile(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, searchBox)
	if p != nil {
		return p
	}

	var f codec.Faults
	q := a.boxOf(values, &f)
	if p := refusal(f); p != nil {
		return p
	}

	err := a.searcher.Serve(r.Context(), w, search.Download{Query: q, Scope: at.scope(), Mask: a.mask, Now: a.now()})
	var why *search.Unsearched
	switch {
	case errors.As(err, &why):
		f.Add("query.q", nil, "%s", note(why.Why))
		return refusal(f)
	case errors.Is(err, history.ErrBusy), errors.Is(err, history.ErrSlow), errors.Is(err, history.ErrUnavailable):
		return a.historyProblem(err)
	}

	return err
}

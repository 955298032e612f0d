package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/search"
	"notifier/internal/store"
)

// foundPage is the number of notices and of entries on a page of a search.
const foundPage = 50

// searchPage is the answer to a line of words, in a section for Redis and one for the history.
type searchPage struct {
	Words  []wordLink
	More   []wordLink // to add
	Narrow string     // the only host within the scope
	Wrong  text       // what is wrong with the line
	// Since and Until are the times of the words, and Fixed is the address of the search with these times in full.
	Since, Until stamp
	Fixed        string
	Redis, Past  *section // nil = not on this page
	CSV          string   // the address of the file; empty for none
	Archive      string   // the address of the history, if it was not searched
	// Replay is the address of the form of a replay with the same window; empty without the right to replay.
	Replay string
}

// wordLink is a word with the address of the search without it, or with it.
type wordLink struct {
	Kind, Label text
	Path        string
}

// section is one half of an answer.
type section struct {
	Wrong   text // why it was not searched
	Total   text
	Notices []noticeRow // of Redis
	Entries []pastRow   // of the history
	Away    text        // the unavailable part of Redis
	Next    string      // the address of the next page
	Full    bool        // Next is another page, not the rest of a search
	First   string      // the address without a cursor, on further pages
}

// boxNames are the parameters that are words of the line, besides q.
var boxNames = []string{"id", "route", "state", "host", "reason", "since", "until"}

// boxOf returns the line of words of a request.
func boxOf(q url.Values) string {
	words := []string{strings.TrimSpace(q.Get("q"))}
	for _, name := range boxNames {
		value := strings.TrimSpace(q.Get(name))
		if value == "" {
			continue
		}

		if strings.ContainsAny(value, " \t\"“") {
			value = `"` + strings.ReplaceAll(value, `"`, "") + `"`
		}

		words = append(words, name+"="+value)
	}

	return strings.TrimSpace(strings.Join(words, " "))
}

// searching is a search of a request.
type searching struct {
	p     *Pages
	r     *http.Request
	v     Visitor
	path  string
	box   string
	q     search.Query
	words []search.Word
}

// searchOf reads the line of a request. The text is what is wrong with it.
func (p *Pages) searchOf(r *http.Request, v Visitor) (s *searching, wrong text) {
	s = &searching{p: p, r: r, v: v, path: r.URL.Path, box: boxOf(r.URL.Query())}
	var err error
	if s.q, s.words, err = search.Read(s.box, p.now().In(v.zone())); err != nil {
		return s, boxFault(err)
	}

	switch {
	case s.q.Text == "":
	case !p.o.Mask.None(): // the matches would tell the masked content
		return s, say("Content is masked here, so text is not searched. For a part of a key, write `part=4711`.")
	case v.Linked():
		return s, say("Text is not searched here. For a part of a key, write `part=4711`.")
	}

	return s, nil
}

// faultTexts are the texts of the faults of a line.
var faultTexts = map[string]text{
	search.WantShort:     say("it has more than 500 bytes."),
	search.WantUTF8:      say("it is not UTF-8."),
	search.WantQuotes:    say("write text between two quotation marks."),
	search.WantID:        say("not a webhook-id: use `msg_` and 26 hexadecimal digits."),
	search.WantHost:      say("not a host: use a name such as shop.example."),
	search.WantState:     say("there is no such state."),
	search.WantReason:    say("there is no such reason."),
	search.WantPart:      say("not a part of a key: use letters, digits, _ . ~ - and colons."),
	search.WantNumber:    say("not an order number."),
	search.WantValue:     say("write a value after the equals sign."),
	search.WantOne:       say("a second word of its kind: write one, and text in quotation marks."),
	search.WantOnePlace:  say("goes with no other key or part of a key: write text in quotation marks."),
	search.WantShortText: say("the text has more than 200 bytes."),
	search.WantDead:      say("only dead letters have a reason: leave the state out."),
	search.WantOneTime:   say("a second time: write one."),
	search.WantOrder:     say("the time ends before it starts."),
}

// boxFault is the text for a line that cannot be read.
func boxFault(err error) text {
	var bad *search.Fault
	if !errors.As(err, &bad) {
		return timeFault(err)
	}

	return say("`%s`: %s", codec.Clip(bad.Word, 60), faultTexts[bad.Want])
}

// showNotices serves a search of Redis and the history; without words a listing of Redis.
func (p *Pages) showNotices(w http.ResponseWriter, r *http.Request, v Visitor) error {
	s, wrong := p.searchOf(r, v)
	if s.q.Key != "" && wrong == nil && !slices.ContainsFunc(s.words, func(x search.Word) bool {
		return x.Kind != search.KindKey && x.Kind != search.KindID
	}) {
		if to, err := s.exactly(); to != "" {
			return back(w, to, nil)
		} else if err != nil && p.o.History == nil {
			return err
		}
	}

	only := search.BothSections
	if s.box == "" || p.o.History == nil && s.q.Text == "" {
		only = search.RedisSection
	}

	return p.showSearch(w, s, say("Notices"), only, wrong)
}

// showHistory serves a listing or a search of the history.
func (p *Pages) showHistory(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if p.o.History == nil {
		return errNoHistory
	}

	s, wrong := p.searchOf(r, v)
	return p.showSearch(w, s, say("History"), search.HistorySection, wrong)
}

// errNoHistory is the failure of pages that need a history.
var errNoHistory = failure{http.StatusNotFound, say("This instance has no history: `NOTIFIER_HISTORY_URL` is not set.")}

func (p *Pages) showSearch(w http.ResponseWriter, s *searching, title text, only search.Section, wrong text) error {
	page := searchPage{Words: s.removable(), Narrow: s.v.Host, Wrong: wrong}
	if wrong == nil {
		page.More = s.addable()
		got, err := s.find(only)
		if err != nil {
			return err
		}
		if to := s.onlyMatch(&got); to != "" {
			return back(w, to, nil)
		}
		if err := s.answer(&page, only, &got); err != nil {
			return err
		}
	}

	return p.render(w, s.r, http.StatusOK, view{Title: title, Visitor: s.v, Box: s.box, Finds: true, Content: searchContent(page)})
}

// redisPlace and historyPlace are what the cursors of the sections are bound to.
func (s *searching) redisPlace() []byte   { return bound("redis", s.box, s.v) }
func (s *searching) historyPlace() []byte { return bound("history", s.box, s.v) }

// find searches.
func (s *searching) find(only search.Section) (got search.Answer, err error) {
	at := search.Page{Limit: foundPage, Only: only}
	if at.Live, err = s.p.openedAs(s.r, "cursor", s.redisPlace()); err != nil {
		return got, err
	}
	if at.Past, err = s.p.openedAs(s.r, "past", s.historyPlace()); err != nil {
		return got, err
	}

	got, err = s.p.searcher.Search(s.r.Context(), s.q, s.v.searches(), at)
	if err == nil && got.Live.Err != nil && got.Past.Why != search.Searched {
		err = got.Live.Err
	}

	return got, err
}

// answer fills the page with the matches.
func (s *searching) answer(page *searchPage, only search.Section, got *search.Answer) (err error) {
	if only != search.HistorySection {
		if page.Redis, err = s.live(&got.Live, s.redisPlace()); err != nil {
			return err
		}
	}

	if only != search.RedisSection && (s.p.o.History != nil || s.q.Text != "") {
		if page.Past, err = s.past(&got.Past, s.historyPlace()); err != nil {
			return err
		}
	} else if s.p.o.History != nil && !s.v.Linked() {
		page.Archive = Root + "history"
	}

	s.offers(page, got.Past.Why)
	return nil
}

// offers adds what may be done with the matches. why says whether the history was searched.
func (s *searching) offers(page *searchPage, why search.Why) {
	if r := s.q.TimeRange; r != (notice.TimeRange{}) {
		page.Since, page.Until, page.Fixed = s.p.stamp(r.Since), s.p.stamp(r.Until), s.fixed()
	}

	if !s.v.Linked() && why != search.NeedsTime && (s.q.Text == "" || why == search.Searched) {
		page.CSV = Root + "notices.csv?" + s.fixedBox().Encode()
	}

	if page.Past != nil && s.v.May(auth.Operate) && s.p.o.Replays != nil {
		page.Replay = s.p.replayForm(s.q, s.v)
	}
}

// live returns the section of Redis.
func (s *searching) live(l *search.Live, place []byte) (*section, error) {
	out := &section{Wrong: s.why(l.Why, l.Err), Away: s.v.away(l.Missing), Full: len(l.Items) >= foundPage}
	out.Total = totalOf(l.Total, say("%s notice(s)", l.Total.N))
	for i := range l.Items {
		row := s.p.noticeRow(&l.Items[i], s.v)
		row.Both = l.Marked(&l.Items[i])
		out.Notices = append(out.Notices, row)
	}

	return out, s.links(out, "cursor", l.Cursor, place)
}

// past returns the section of the history.
func (s *searching) past(l *search.Past, place []byte) (*section, error) {
	out := &section{Wrong: s.why(l.Why, l.Err), Total: totalOf(l.Total, say("%s entr(y|ies)", l.Total.N)), Full: true}
	if l.Both > 0 {
		out.Total = both(out.Total, say("%s of them (is|are) above.", l.Both))
	}

	for i := range l.Rows {
		row := s.p.pastRow(&l.Rows[i], s.v)
		row.Both = l.Marked(&l.Rows[i])
		out.Entries = append(out.Entries, row)
	}

	return out, s.links(out, "past", l.Cursor, place)
}

// totalOf is a total, or the lower bound that is known.
func totalOf(t search.Total, exact text) text {
	switch {
	case t.Exact:
		return exact
	case t.N > 0:
		return say("more than %s", t.N)
	}
	return nil
}

// links adds the addresses of other pages of a section.
func (s *searching) links(out *section, name, cursor string, place []byte) error {
	next, err := s.p.seal(s.r, cursor, place)
	if s.r.URL.Query().Get(name) != "" {
		out.First = s.onward(name, "")
	}

	if next != "" {
		out.Next = s.onward(name, next)
	}

	return err
}

// onward returns the address of the search with another cursor of one section. The other section keeps its cursor.
func (s *searching) onward(name, cursor string) string {
	values := s.values()
	for _, c := range []string{"cursor", "past"} {
		if text := s.r.URL.Query().Get(c); text != "" && c != name {
			values.Set(c, text)
		}
	}

	if cursor != "" {
		values.Set(name, cursor)
	}

	if name == "past" {
		return s.path + "?" + values.Encode() + "#history"
	}

	return s.path + "?" + values.Encode()
}

func (s *searching) values() url.Values {
	if s.box == "" {
		return url.Values{}
	}
	return url.Values{"q": {s.box}}
}

// why is the reason why a section was not searched; nil if it was.
func (s *searching) why(w search.Why, err error) text {
	switch w {
	case search.NoHistory:
		return errNoHistory.text
	case search.TextInHistory:
		return say("Text is searched in the history only. For a part of a key, write `part=4711`.")
	case search.OnlyHistory:
		return say("Only the history has replaced notices.")
	case search.OnlyRedis:
		return say("The history has finalized notices only.")
	case search.NeedsTime:
		return say("Text and parts of keys need a time: add `7d`, `yesterday` or `yesterday 10-11`.")
	case search.Failed:
		if historyError(err) {
			return s.p.historyFailure(s.r.Context(), err).text
		}
		return s.p.failure(s.r.Context(), err).text
	}
	return nil
}

// historyError reports whether an error is one of the history.
func historyError(err error) bool {
	return slices.ContainsFunc([]error{history.ErrBusy, history.ErrSlow, history.ErrUnavailable, history.ErrForeign, history.ErrNewer},
		func(known error) bool { return errors.Is(err, known) })
}

// exactly returns the address of the notice with a whole key; empty if there is none.
func (s *searching) exactly() (string, error) {
	if !s.v.Covers(s.q.Key) {
		return "", nil
	}

	f, err := s.p.o.Engine.Find(s.r.Context(), s.q.Key)
	if err == nil && s.v.Sees(&f, s.p.hostOf(&f)) && (s.q.ID == "" || f.ID() == s.q.ID) {
		return noticePath(s.q.Key), nil
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}

	rows, err := s.p.endings(s.r.Context(), s.q.Key, s.q.ID, s.v)
	switch {
	case len(rows) == 0:
		return "", err
	case s.q.ID != "":
		return entryPath(&rows[0]), nil
	}

	return noticePath(s.q.Key), nil
}

// kindTexts are the names of kinds of words.
var kindTexts = map[search.Kind]text{
	search.KindKey: say("Key"), search.KindBegins: say("Beginning of the key"), search.KindNumber: say("Order number"),
	search.KindPart: say("Part of the key"), search.KindID: plain("webhook-id"), search.KindHost: say("Host"), search.KindRoute: say("Route"),
	search.KindState: say("State"), search.KindReason: say("Reason"), search.KindSince: say("From"), search.KindUntil: say("Until"),
	search.KindTime: say("Time"), search.KindText: say("Text"),
}

// removable returns the words, each with the address of the search without it.
func (s *searching) removable() (list []wordLink) {
	for i, w := range s.words {
		label := plain(w.Text)
		if s.v.Linked() && w.Kind == search.KindReason {
			label = s.v.reason(s.q.Reason) // without its code
		}

		list = append(list, wordLink{Kind: kindTexts[w.Kind], Label: label, Path: s.with(slices.Delete(slices.Clone(s.words), i, i+1))})
	}
	return list
}

// offered are words that a search may add.
var offered = []struct {
	word  search.Word
	label text
}{
	{search.Word{Kind: search.KindState, Text: "failed"}, say("failed")},
	{search.Word{Kind: search.KindState, Text: "delivered"}, say("delivered")},
	{search.Word{Kind: search.KindState, Text: "scheduled"}, say("scheduled")},
	{search.Word{Kind: search.KindTime, Text: "1d"}, plain(24 * time.Hour)},
	{search.Word{Kind: search.KindTime, Text: "7d"}, plain(7 * 24 * time.Hour)},
	{search.Word{Kind: search.KindTime, Text: "yesterday"}, say("yesterday")},
}

// addable returns words of kinds that the search does not have, each with the address of the search with it.
func (s *searching) addable() (list []wordLink) {
	for _, o := range offered {
		timed := o.word.Kind == search.KindTime && s.q.TimeRange != notice.TimeRange{}
		if !timed && !slices.ContainsFunc(s.words, func(x search.Word) bool { return x.Kind == o.word.Kind }) {
			list = append(list, wordLink{Label: o.label, Path: s.with(append(slices.Clone(s.words), o.word))})
		}
	}
	return list
}

// with returns the address of the search with other words.
func (s *searching) with(words []search.Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}

	if len(texts) == 0 {
		return s.path
	}

	return s.path + "?" + url.Values{"q": {strings.Join(texts, " ")}}.Encode()
}

// fixedBox returns the line with its times in full, so that it is the same search tomorrow and for all visitors.
func (s *searching) fixedBox() url.Values {
	var texts []string
	for _, w := range s.words {
		if w.Kind != search.KindTime && w.Kind != search.KindSince && w.Kind != search.KindUntil {
			texts = append(texts, w.Text)
		}
	}

	if !s.q.Since.IsZero() {
		texts = append(texts, "since="+s.q.Since.Format(time.RFC3339Nano))
	}

	if !s.q.Until.IsZero() {
		texts = append(texts, "until="+s.q.Until.Format(time.RFC3339Nano))
	}

	return url.Values{"q": {strings.Join(texts, " ")}}
}

func (s *searching) fixed() string { return s.path + "?" + s.fixedBox().Encode() }

// replayForm returns the address of the form of a replay with the window of a search.
func (p *Pages) replayForm(q search.Query, v Visitor) string {
	values := url.Values{}
	set := func(name, value string) {
		if value != "" {
			values.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.Format(time.RFC3339Nano))
		}
	}

	if q.Route != "" {
		prefix, _ := p.searcher.Route(q.Route, v.searches())
		set("prefix", prefix)
	}

	set("host", q.Host)
	if o := notice.Ending(q.State); o == notice.EndDead || o == notice.EndDelivered {
		set("outcome", q.State)
	}

	return Root + "replays/new?" + values.Encode()
}

// downloadFound serves the matches of a search as CSV.
func (p *Pages) downloadFound(w http.ResponseWriter, r *http.Request, v Visitor) error {
	s, wrong := p.searchOf(r, v)
	if wrong != nil {
		return failure{http.StatusUnprocessableEntity, wrong}
	}

	ctx, cancel := context.WithTimeout(r.Context(), downloadTime)
	defer cancel()

	err := p.searcher.Serve(ctx, w, search.Download{Query: s.q, Scope: v.searches(), Mask: p.o.Mask, Now: p.now()})
	var un *search.Unsearched
	switch {
	case errors.As(err, &un):
		return failure{http.StatusUnprocessableEntity, s.why(un.Why, nil)}
	case historyError(err):
		return p.historyFailure(r.Context(), err)
	}

	return err
}

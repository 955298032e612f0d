package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Redis lists the notices in Redis.
type Redis interface {
	Find(ctx context.Context, key string) (store.Found, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
	Unrouted(ctx context.Context) ([]string, error)
}

// History reads the history.
type History interface {
	Find(ctx context.Context, q history.Query) (history.Page, error)
	Count(ctx context.Context, q history.Query, most int) (n int, exact bool, err error)
	Types(ctx context.Context, prefix string, most int) (list []string, all bool, err error)
	Has(ctx context.Context, names []history.Name) (map[history.Name]bool, error)
	MonthReport(ctx context.Context, q history.ReportQuery) (*history.Report, error)
}

// Searcher answers queries.
type Searcher struct {
	Redis   Redis
	History History // nil = there is no history
	Routes  *route.Table
}

// Scope limits a search to the notices of its caller.
type Scope struct {
	auth.Caller
	// Host and Audience limit the notices further; empty = all.
	Host, Audience string
}

// narrow reports whether the caller sees only some notices of the prefix. Such a caller gets no totals.
func (s Scope) narrow() bool { return s.Host != "" || s.Audience != "" }

func (s Scope) sees(n *notice.Notice, host string) bool {
	return s.Covers(n.Key) && (s.Audience == "" || n.Audience == s.Audience) && (s.Host == "" || host == s.Host)
}

// Total is a number of notices. If it is not exact, there are more, or the search is not finished.
type Total struct {
	N     int
	Exact bool
}

// Why is the reason why a section was not searched.
type Why int

// Reasons of empty sections.
const (
	Searched      Why = iota
	NoHistory         // there is none
	TextInHistory     // only the history has an index of time for texts
	OnlyHistory       // the state exists in the history only
	OnlyRedis         // the state exists in Redis only
	NeedsTime         // the search has no index and needs a range of time
	Failed            // Err says why
)

// Live is the section of Redis.
type Live struct {
	Why    Why
	Err    error
	Items  []store.Found
	Total  Total
	Cursor string
	// InHistory are the finalized items that the history has too.
	InHistory map[history.Name]bool
	Missing   []wire.Lost
}

// Past is the section of the history. It lacks entries that the section of Redis has.
type Past struct {
	Why    Why
	Err    error
	Rows   []history.Row
	Total  Total // includes the entries that Redis has too
	Cursor string
	Both   int // omitted on this page, because the section of Redis has them
	// InRedis are the rows that Redis has too.
	InRedis map[history.Name]bool
}

// Marked reports whether Redis has a row too.
func (p *Past) Marked(r *history.Row) bool {
	return p.InRedis[history.Name{ID: r.ID(), Number: r.Number}]
}

// Answer has both sections.
type Answer struct {
	Live Live
	Past Past
}

// OnlyKey returns the key whose last segment is an order number, from the answer to a search for the number. It is empty if
// there are several, or if a section was not read to its end: there may be more.
func (a *Answer) OnlyKey(number string) string {
	past := a.Past.Why == OnlyRedis || a.Past.Why == NoHistory || a.Past.Why == Searched && a.Past.Cursor == ""
	if !past || a.Live.Why != Searched || a.Live.Cursor != "" || len(a.Live.Missing) > 0 {
		return ""
	}

	found := map[string]bool{}
	for i := range a.Live.Items {
		found[a.Live.Items[i].Key] = true
	}

	for i := range a.Past.Rows {
		found[a.Past.Rows[i].Key] = true
	}

	only := ""
	for key := range found {
		if key[strings.LastIndexByte(key, ':')+1:] != number {
			continue
		}
		if only != "" {
			return ""
		}

		only = key
	}

	return only
}

// Page selects pages of the sections by their cursors.
type Page struct {
	Limit      int
	Live, Past string
	// Uncounted leaves the totals out.
	Uncounted bool
	// Only is the only section that is answered.
	Only Section
}

// Section is a part of an answer.
type Section int

// Sections of an answer.
const (
	BothSections Section = iota
	RedisSection
	HistorySection
)

// Limits of one answer.
const (
	listTime = 700 * time.Millisecond
	countBy  = time.Second // of the section of Redis, with its listing
	step     = 200         // notices of one call of Redis
	mostByID = 10_000      // notices that are read for a webhook-id: Redis has no index of them
	// MostCounted is the highest exact total.
	MostCounted = 100_000
	mostTypes   = 200
)

// Search answers a query. A section that cannot be searched has its reason, and the other one is answered.
func (s *Searcher) Search(ctx context.Context, q Query, scope Scope, page Page) (Answer, error) {
	var a Answer
	s.locate(ctx, &q, scope)
	s.widen(ctx, &q, scope)
	if page.Only == HistorySection {
		a.Live.Why = OnlyHistory
	} else if err := s.live(ctx, q, scope, page, &a.Live); err != nil {
		return a, err
	}

	if page.Only == RedisSection {
		a.Past.Why = OnlyRedis
		return a, nil
	}

	s.past(ctx, q, scope, page, &a)
	s.mark(ctx, &a.Live)
	return a, nil
}

// Route returns the prefix of a route with a name or a prefix; ok is false if the caller can see no such route.
func (s *Searcher) Route(name string, scope Scope) (prefix string, ok bool) {
	prefix = name
	if r := s.Routes.Name(name); r != nil {
		prefix = r.Prefix
	} else if keys.CheckPrefix(name) != nil {
		return "", false
	}

	return prefix, scope.Meets(prefix)
}

// locate replaces a webhook-id by its key too, if the history has an entry: Redis has no index of webhook-ids.
func (s *Searcher) locate(ctx context.Context, q *Query, scope Scope) {
	if q.ID == "" || q.Key != "" || s.History == nil {
		return
	}

	page, err := s.History.Find(ctx, history.Query{Client: scope.Name, ID: q.ID, Prefix: scope.Prefix, Limit: 1})
	if err == nil && len(page.Rows) > 0 {
		q.Key = page.Rows[0].Key
	}
}

// widen makes a whole key that no visible notice has the beginning of keys: app1:orders:paid:20261 may be one.
func (s *Searcher) widen(ctx context.Context, q *Query, scope Scope) {
	if q.Key == "" || q.ID != "" {
		return
	}

	f, err := s.Redis.Find(ctx, q.Key)
	if err == nil && scope.sees(f.Notice, s.HostOf(f.Notice)) || err != nil && !errors.Is(err, store.ErrNotFound) {
		return
	}

	if s.History != nil {
		page, err := s.History.Find(ctx, history.Query{Client: scope.Name, Key: q.Key, Limit: 1})
		if err != nil || slices.ContainsFunc(page.Rows, func(r history.Row) bool { return scope.sees(r.Notice, r.Host) }) {
			return
		}
	}

	q.Key, q.Begins = "", q.Key
}

// HostOf returns the host of a notice; empty = none.
func (s *Searcher) HostOf(n *notice.Notice) string {
	if n.URL != "" {
		return history.HostOf(n.URL)
	}
	return s.fixedHost(n.Route)
}

// fixedHost returns the host of a route with a fixed target.
func (s *Searcher) fixedHost(prefix string) string {
	r := s.Routes.Prefix(prefix)
	if r == nil || r.Target.URL == nil {
		return ""
	}

	host, err := notice.Host(r.Target.URL.Hostname())
	if err != nil {
		return ""
	}

	return host
}

// prefixes returns the prefixes of the routes that may have matches.
func (s *Searcher) prefixes(ctx context.Context, q Query, scope Scope, host string) ([]string, error) {
	only := ""
	if q.Route != "" {
		var ok bool
		if only, ok = s.Route(q.Route, scope); !ok {
			return nil, nil
		}
	}

	all, err := s.Redis.Unrouted(ctx)
	if err != nil {
		return nil, err
	}

	known := make([]string, 0, len(all))
	for _, r := range s.Routes.All() {
		known = append(known, r.Prefix)
	}

	begins := cmp.Or(q.Key, q.Begins)
	return slices.DeleteFunc(append(known, all...), func(prefix string) bool {
		r, fixed := s.Routes.Prefix(prefix), s.fixedHost(prefix)
		calls := host == "" || r == nil || fixed == host || fixed == "" && r.Target.Kind == route.KindNotice
		fits := begins == "" || strings.HasPrefix(prefix+":", begins) || strings.HasPrefix(begins, prefix+":")
		return !scope.Meets(prefix) || only != "" && prefix != only || !calls || !fits
	}), nil
}

// host returns the host to search for; ok is false if the caller's scope has another.
func (q Query) host(scope Scope) (host string, ok bool) {
	return cmp.Or(scope.Host, q.Host), scope.Host == "" || q.Host == "" || scope.Host == q.Host
}

// Select returns the query of Redis, which may have more matches than q. A query without routes has none.
func (s *Searcher) Select(ctx context.Context, q Query, scope Scope) (store.Query, error) {
	host, ok := q.host(scope)
	sq := store.Query{Prefix: scope.Prefix, Begins: q.Begins, Contains: cmp.Or(q.Number, q.Part), State: notice.State(q.State),
		Reason: q.Reason, Since: q.Since, Until: q.Until, Host: host}
	if !ok {
		return sq, nil
	}

	if sq.Reason != "" {
		sq.State = notice.Dead
	}

	if strings.Contains(q.Part, ":") {
		sq.Begins, sq.Contains = q.Part, ""
	}

	var err error
	sq.Routes, err = s.prefixes(ctx, q, scope, host)
	if host != "" && slices.ContainsFunc(sq.Routes, func(prefix string) bool { return s.fixedHost(prefix) == host }) {
		sq.Host = "" // no notice of that route has a url
	}

	return sq, err
}

// live answers the section of Redis. The error is that of an invalid cursor.
func (s *Searcher) live(ctx context.Context, q Query, scope Scope, page Page, l *Live) error {
	switch {
	case q.Text != "":
		l.Why = TextInHistory
		return nil
	case q.State == string(notice.EndReplaced):
		l.Why = OnlyHistory
		return nil
	}

	host, ok := q.host(scope)
	if !ok {
		l.Total.Exact = true
		return nil
	}

	sq, err := s.Select(ctx, q, scope)
	if sq.Cursor = page.Live; err != nil {
		l.Why, l.Err = Failed, err
		return nil
	}

	look := &looking{s: s, q: q, sq: sq, scope: scope, host: host, page: page, out: l, began: time.Now()}
	if q.Key != "" {
		err = look.exact(ctx)
	} else {
		err = look.list(ctx)
	}

	switch {
	case errors.Is(err, store.ErrCursor):
		return err
	case err != nil:
		l.Why, l.Err = Failed, err
	}

	return nil
}

// looking is a search of Redis.
type looking struct {
	s     *Searcher
	q     Query
	sq    store.Query
	scope Scope
	host  string
	page  Page
	out   *Live
	began time.Time
	seen  int
	first map[string]bool // keys that are counted
}

// fits reports whether a notice matches.
func (k *looking) fits(f *store.Found) bool {
	host := k.s.HostOf(f.Notice)
	at := f.Due
	if !f.SettledAt.IsZero() {
		at = f.SettledAt
	}

	q := k.q
	return k.scope.sees(f.Notice, host) && (k.host == "" || host == k.host) && (q.ID == "" || f.ID() == q.ID) &&
		(q.Key == "" || f.Key == q.Key) && (q.State == "" || string(f.State) == q.State) &&
		(q.Reason == "" || f.State == notice.Dead && f.Reason == q.Reason) && (q.Route == "" || slices.Contains(k.sq.Routes, f.Route)) &&
		(q.Since.IsZero() || !at.Before(q.Since)) && (q.Until.IsZero() || at.Before(q.Until)) &&
		(q.Number == "" || strings.HasPrefix(f.Key[strings.LastIndexByte(f.Key, ':')+1:], q.Number))
}

// exact reads one key.
func (k *looking) exact(ctx context.Context) error {
	k.out.Total.Exact = true
	if !k.scope.Covers(k.q.Key) {
		return nil
	}

	f, err := k.s.Redis.Find(ctx, k.q.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	}

	if k.fits(&f) {
		k.out.Items, k.out.Total.N = []store.Found{f}, 1
	}

	return nil
}

// list reads until a page is full, and then counts until its time is over.
func (k *looking) list(ctx context.Context) error {
	if err := k.guess(ctx); err != nil {
		return err
	}

	sq, full := k.sq, false
	for len(sq.Routes) > 0 {
		sq.Limit = step
		if !full {
			sq.Limit = max(1, min(step, k.page.Limit-len(k.out.Items)))
		}

		p, err := k.s.Redis.List(ctx, sq)
		if err != nil {
			return err
		}

		k.take(p.Items, full)
		if full = k.follow(&sq, p, full); sq.Cursor == "" || k.enough(full) {
			break
		}
	}

	if len(sq.Routes) == 0 {
		k.out.Total.Exact = true
	}

	return nil
}

// follow moves on by a page. It reports whether the page of the answer is full.
func (k *looking) follow(sq *store.Query, p store.Page, full bool) bool {
	k.out.Missing = wire.Together(k.out.Missing, p.Missing)
	sq.Cursor, k.seen = p.Cursor, k.seen+p.Looked
	if !full {
		k.out.Cursor = p.Cursor
		full = len(k.out.Items) >= k.page.Limit
	}

	if k.q.ID != "" && len(k.out.Items) > 0 {
		k.out.Cursor, sq.Cursor = "", "" // at most one notice matches
	}

	if sq.Cursor == "" {
		k.out.Total.Exact = k.page.Live == "" && len(k.out.Missing) == 0
	}

	return full
}

// enough reports whether the listing ends before its last page.
func (k *looking) enough(full bool) bool {
	limit := listTime
	if full {
		limit = countBy
	}

	return time.Since(k.began) > limit || full && k.page.Uncounted || k.q.ID != "" && k.seen >= mostByID || k.out.Total.N > MostCounted
}

// guess reads the keys that an order number can have under routes with a prefix of three segments, before the
// listing, which may take long to reach them.
func (k *looking) guess(ctx context.Context) error {
	k.first = map[string]bool{}
	if k.q.Number == "" || k.page.Limit < 2 {
		return nil
	}

	for _, prefix := range k.sq.Routes[:min(len(k.sq.Routes), mostTypes)] {
		key := prefix + ":" + k.q.Number
		if !keys.Valid(key) || !k.scope.Covers(key) {
			continue
		}

		f, err := k.s.Redis.Find(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return err
		}

		if k.first[key] = true; k.fits(&f) && k.page.Live == "" && len(k.out.Items) < k.page.Limit-1 {
			k.out.Items = append(k.out.Items, f)
			k.out.Total.N++
		}
	}

	return nil
}

// take adds the matches of a step, or only counts them.
func (k *looking) take(items []store.Found, countOnly bool) {
	for i := range items {
		if !k.fits(&items[i]) || k.first[items[i].Key] {
			continue
		}

		k.first[items[i].Key] = true // a notice that changes its state during the listing may be listed twice
		if k.out.Total.N++; !countOnly {
			k.out.Items = append(k.out.Items, items[i])
		}
	}
}

// nameOf identifies the history entry of a finalized notice in Redis.
func nameOf(f *store.Found) (history.Name, bool) {
	return history.Name{ID: f.ID(), Number: f.Endings + 1}, f.State != notice.Scheduled && f.State != notice.Claimed
}

// mark sets InHistory. Without an answer of the history nothing is marked.
func (s *Searcher) mark(ctx context.Context, l *Live) {
	var names []history.Name
	for i := range l.Items {
		if n, ended := nameOf(&l.Items[i]); ended {
			names = append(names, n)
		}
	}

	if s.History == nil || len(names) == 0 {
		return
	}

	if all, err := s.History.Has(ctx, names); err == nil {
		l.InHistory = all
	}
}

// Marked reports whether the history has an item of the section of Redis too.
func (l *Live) Marked(f *store.Found) bool {
	n, ended := nameOf(f)
	return ended && l.InHistory[n]
}

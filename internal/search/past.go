package search

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

// past answers the section of the history, without the entries that the section of Redis has. An entry stays if Redis
// has it but its search ended before reaching it. If Redis does not answer, it is not asked for each entry.
func (s *Searcher) past(ctx context.Context, q Query, scope Scope, page Page, a *Answer) {
	l, p := &a.Live, &a.Past
	shown := map[history.Name]bool{}
	for i := range l.Items {
		if n, ended := nameOf(&l.Items[i]); ended {
			shown[n] = true
		}
	}

	unfinished := l.Why != Searched || l.Cursor != "" && len(l.Items) < page.Limit
	hq, parts, why := s.pastQuery(ctx, q, scope)
	if p.Why = why; why != Searched {
		return
	}

	if hq == nil {
		p.Total.Exact = true
		return
	}

	hq.Limit, hq.Cursor = page.Limit, page.Past
	got, err := s.merged(ctx, *hq, parts)
	if err != nil {
		p.Why, p.Err = Failed, err
		return
	}

	p.Cursor, p.InRedis = got.Cursor, map[history.Name]bool{}
	for i := range got.Rows {
		r := &got.Rows[i]
		if !scope.sees(r.Notice, r.Host) {
			continue
		}

		name := history.Name{ID: r.ID(), Number: r.Number}
		has := shown[name] || page.Only == BothSections && l.Why != Failed && s.inRedis(ctx, r, name)
		if has && (shown[name] || !unfinished) {
			p.Both++
			continue
		}

		p.Rows, p.InRedis[name] = append(p.Rows, *r), has
	}

	p.Total = Total{len(p.Rows) + p.Both, got.Cursor == "" && page.Past == ""}
	if !p.Total.Exact && !page.Uncounted && !scope.narrow() {
		s.countPast(ctx, *hq, parts, p)
	}
}

// countPast counts the entries of all pages.
func (s *Searcher) countPast(ctx context.Context, hq history.Query, parts []string, p *Past) {
	ctx, cancel := context.WithTimeout(ctx, history.CountTime)
	defer cancel()

	sum := Total{Exact: true}
	for _, part := range each(parts) {
		if part != "" {
			hq.Part = part
		}

		n, exact, err := s.History.Count(ctx, hq, MostCounted-sum.N)
		if err != nil {
			sum.Exact = false
			break
		}

		sum.N += n
		if sum.Exact = exact; !exact {
			break
		}
	}

	p.Total = Total{max(sum.N, p.Total.N), sum.Exact}
}

// each returns the parts, or one empty part.
func each(parts []string) []string {
	if len(parts) == 0 {
		return []string{""}
	}
	return parts
}

// pastQuery returns the query of the history. parts are the beginnings of keys of an order number, one for each type;
// a nil query selects nothing.
func (s *Searcher) pastQuery(ctx context.Context, q Query, scope Scope) (hq *history.Query, parts []string, why Why) {
	switch host, ok := q.host(scope); {
	case s.History == nil:
		return nil, nil, NoHistory
	case q.State == string(notice.Scheduled), q.State == string(notice.Claimed):
		return nil, nil, OnlyRedis
	case !ok, q.Key != "" && !scope.Covers(q.Key):
		return nil, nil, Searched
	default:
		hq = &history.Query{Client: scope.Name, Key: q.Key, ID: q.ID, Prefix: scope.Prefix, Host: host, Reason: q.Reason, Since: q.Since,
			Until: q.Until, Text: q.Text, Part: q.Part}
	}

	if q.State != "" {
		hq.Outcomes = []notice.Ending{notice.Ending(q.State)}
	}

	if q.Begins != "" {
		hq.Part = q.Begins
		if whole, ok := strings.CutSuffix(q.Begins, ":"); ok && keys.CheckPrefix(whole) == nil {
			hq.Part = ""
			if !narrowed(hq, whole) {
				return nil, nil, Searched
			}
		}
	}

	if q.Route != "" {
		prefix, ok := s.Route(q.Route, scope)
		if hq.Route = prefix; !ok || !narrowed(hq, prefix) {
			return nil, nil, Searched
		}
	}

	if hq.Key != "" {
		hq.Prefix = "" // the scope covers the key
	}

	if q.Number != "" {
		return s.numbered(ctx, hq, q.Number)
	}
	if hq.Unindexed() && hq.Since.IsZero() {
		return nil, nil, NeedsTime
	}

	return hq, nil, Searched
}

// narrowed limits a query to keys under another prefix too. It returns false if there are none.
func narrowed(hq *history.Query, prefix string) bool {
	switch {
	case hq.Prefix == "" || prefix == hq.Prefix || keys.HasPrefix(prefix, hq.Prefix):
		hq.Prefix = prefix
	case !keys.HasPrefix(hq.Prefix, prefix):
		return false
	}
	return true
}

// numbered looks up an order number under each type, in the index of keys. With too many types it needs a range of
// time, and searches parts of keys.
func (s *Searcher) numbered(ctx context.Context, hq *history.Query, number string) (*history.Query, []string, Why) {
	types, all, err := s.History.Types(ctx, hq.Prefix, mostTypes)
	if err != nil || !all {
		if hq.Part = number; hq.Since.IsZero() {
			return nil, nil, NeedsTime
		}
		return hq, nil, Searched
	}

	parts := make([]string, len(types))
	for i, t := range types {
		parts[i] = t + ":" + number
	}

	if len(parts) == 0 {
		return nil, nil, Searched
	}

	return hq, parts, Searched
}

// merged returns the latest entries of the query with each part. All have the same order, so one cursor continues all.
func (s *Searcher) merged(ctx context.Context, hq history.Query, parts []string) (history.Page, error) {
	var all history.Page
	more := false
	for _, part := range each(parts) {
		if part != "" {
			hq.Part = part
		}

		got, err := s.History.Find(ctx, hq)
		if err != nil {
			return history.Page{}, err
		}

		if len(parts) == 0 {
			return got, nil
		}

		more = more || got.Cursor != ""
		all.Rows = append(all.Rows, got.Rows...)
		if slices.SortFunc(all.Rows, later); len(all.Rows) > hq.Limit {
			all.Rows, more = all.Rows[:hq.Limit], true
		}
	}

	if more && len(all.Rows) > 0 {
		all.Cursor = history.CursorAfter(&all.Rows[len(all.Rows)-1])
	}

	return all, nil
}

// later is the order of entries in a listing.
func later(a, b history.Row) int {
	return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(b.ID(), a.ID()), b.Number-a.Number)
}

// inRedis reports whether Redis has an entry's notice as it was finalized. If Redis does not answer, it has not.
func (s *Searcher) inRedis(ctx context.Context, r *history.Row, name history.Name) bool {
	f, err := s.Redis.Find(ctx, r.Key)
	if err != nil {
		return false
	}

	n, ended := nameOf(&f)
	return ended && n == name
}

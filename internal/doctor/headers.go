package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

const (
	// headersPage is the page size of the listing of pending notices; about headersChecked notices of a route are
	// checked.
	headersPage, headersChecked = 500, 5000
	// headersNamed is the maximum number of origins in a finding.
	headersNamed = 5
)

// mismatch describes the notices of one route for one origin that does not get the route's headers.
type mismatch struct {
	origin string
	want   []string
	key    string // of the first
	n      int
}

// headers reports pending notices that are postponed because of HEADERS_TO.
func (r *run) headers(ctx context.Context) {
	const check = "headers"
	var s *store.Store
	wrong, routes := 0, 0
	for _, rt := range r.cfg.Routes {
		if rt.HeadersTo.Empty() {
			continue
		}

		if routes++; s == nil {
			s = store.New(store.Options{Client: r.conn.Commander, Space: r.space, Cluster: r.conn.Masters != nil, Nodes: r.conn.Nodes})
		}

		list, checked, more, err := mismatches(ctx, s, rt)
		switch {
		case err != nil:
			r.add(Finding{Check: check, Severity: Error, Message: fmt.Sprintf("cannot read the pending notices of route %s: %v", rt.Name, err)})
			wrong++
		case len(list) > 0:
			r.add(mismatchFinding(check, rt, list, checked, more))
			wrong++
		}
	}

	if wrong == 0 && routes > 0 {
		r.add(Finding{Check: check, Severity: OK, Message: "no pending notice waits for the headers of its route"})
	}
}

// mismatches checks the pending notices of a route. more reports that some were not checked.
func mismatches(ctx context.Context, s *store.Store, rt *route.Route) (list []mismatch, checked int, more bool, err error) {
	q := store.Query{Routes: []string{rt.Prefix}, State: notice.Scheduled, Limit: headersPage}
	for checked < headersChecked {
		page, err := s.List(ctx, q)
		if err != nil {
			return nil, 0, false, err
		}

		for i := range page.Items {
			n := page.Items[i].Notice
			var held *route.HeadersError
			if !errors.As(checkHeaders(rt, n.URL), &held) {
				continue
			}

			origin := held.Origin.String()
			at := slices.IndexFunc(list, func(m mismatch) bool { return m.origin == origin })
			if at < 0 {
				at, list = len(list), append(list, mismatch{origin: origin, want: held.Want, key: n.Key})
			}

			list[at].n++
		}

		checked += len(page.Items)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return list, checked, len(page.Missing) > 0, nil
		}
	}

	return list, checked, true, nil
}

func checkHeaders(rt *route.Route, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}

	host, err := notice.Host(u.Hostname())
	if err != nil {
		return err
	}

	return rt.CheckHeaders(route.OriginOf(u, host))
}

func mismatchFinding(check string, rt *route.Route, list []mismatch, checked int, more bool) Finding {
	slices.SortStableFunc(list, func(a, b mismatch) int { return b.n - a.n })
	total := 0
	var names, origins []string
	for i, m := range list {
		if total += m.n; i < headersNamed {
			names = append(names, fmt.Sprintf("%s (%s, such as %s; want %s)", m.origin, notice.Count(int64(m.n), "notice"), m.key,
				strings.Join(m.want, " or ")))
			origins = append(origins, m.origin)
		}
	}

	if rest := len(list) - headersNamed; rest > 0 {
		names = append(names, fmt.Sprintf("and %d more", rest))
	}

	of := notice.Count(int64(checked), "pending notice")
	if more {
		of = "the first " + of
	}

	return Finding{Check: check, Severity: Warning,
		Message: fmt.Sprintf("of %s of route %s, %d are postponed when they are due: the scheme or port of their url is not in HEADERS_TO: %s",
			of, rt.Name, total,
			strings.Join(names, ", ")),
		Remedy: fmt.Sprintf("add %s to NOTIFIER_ROUTE_%s_HEADERS_TO if these may get the headers, or cancel the notices",
			strings.Join(origins, ","),
			route.EnvName(rt.Name))}
}

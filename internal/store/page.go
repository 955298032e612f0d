package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/page.lua
var pageSource string

var pageScript = wire.NewScript("page", pageSource, false).Anywhere()

// cursor is where a listing goes on: the routes in order, in each the shards,
// in each the zsets.
type cursor struct {
	Prefix string `json:"p"`
	Shard  int    `json:"s,omitempty"`
	Set    int    `json:"z,omitempty"`
	Score  string `json:"v,omitempty"`
	Key    string `json:"k,omitempty"`
	// Former is how many places come before the shards: what was begun before a reshard
	// is not gone on with.
	Former int `json:"f,omitempty"`
}

// sets are the zsets in the order a notice goes through them, so that one that
// moves on during a listing is seen later, not missed.
const (
	setShadow = iota
	setDead
	setSettled
	sets
)

func setsOf(s notice.State) []int {
	switch s {
	case notice.Scheduled, notice.Claimed:
		return []int{setShadow}
	case notice.Dead:
		return []int{setDead}
	case notice.Delivered, notice.Cancelled:
		return []int{setSettled}
	}
	return []int{setShadow, setDead, setSettled}
}

// lookPerCall bounds how many entries one call looks at, readPerCall how many of
// which it has to read the records, and callsPerPage how many calls one page may
// take. A call of either kind takes Redis some 2 ms.
const (
	lookPerCall  = 1000
	readPerCall  = 250
	callsPerPage = 8
)

// List reads a page. Notices that stay as they are during a listing are seen
// exactly once; one that changes its state may be seen twice, or, if it is
// redriven, not at all. In a cluster the page says which nodes' shards it has passed
// over because they do not answer.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
	at, err := readCursor(q.Cursor)
	if err == nil && q.Cursor != "" && (!slices.Contains(q.Routes, at.Prefix) || at.Shard >= s.space.Places() || at.Former != s.space.First()) {
		err = ErrCursor // of another configuration
	}
	if err != nil {
		return Page{}, err
	}
	page, r := Page{}, s.w.NewRound()
	if page.Cursor, err = s.pages(ctx, q, at, &page, r); err != nil {
		return Page{}, err
	}
	if page.Missing, err = r.Missing(ctx); err != nil {
		return Page{}, err
	}
	return page, nil
}

// pages adds to a page what it has room for, from a cursor on, and is where the next
// begins.
func (s *Store) pages(ctx context.Context, q Query, at cursor, page *Page, r *wire.Round) (next string, err error) {
	calls, first := 0, s.space.First()
	start := max(slices.Index(q.Routes, at.Prefix), 0)
	for _, prefix := range q.Routes[min(start, len(q.Routes)):] {
		for shard := at.Shard; shard < s.space.Places(); shard++ {
			for _, set := range setsOf(q.State) {
				if set < at.Set {
					continue
				}
				for {
					here := cursor{prefix, shard, set, at.Score, at.Key, first}
					if len(page.Items) >= q.Limit || calls >= callsPerPage {
						return here.String(), nil
					}
					calls++
					more := false
					if _, err := r.Do(ctx, shard, func(ctx context.Context) (err error) {
						more, err = s.pagePart(ctx, page, &here, q)
						return err
					}); err != nil {
						return "", err
					}
					if !more {
						break
					}
					at = here
				}
				at = cursor{}
			}
			at = cursor{}
		}
		at = cursor{}
	}
	return "", nil
}

func (c cursor) String() string {
	text, _ := json.Marshal(c)
	return string(text)
}

// readCursor is the inverse of String; the empty text is the beginning. What
// leaves this process is sealed (see package api), and yet nothing is passed on
// that Redis would not take.
func readCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	var c cursor
	if json.Unmarshal([]byte(text), &c) != nil || c.Shard < 0 || c.Set < 0 || c.Set >= sets || (c.Score == "") != (c.Key == "") {
		return cursor{}, ErrCursor
	}
	if c.Score != "" {
		score, err := strconv.ParseFloat(c.Score, 64)
		if err != nil || math.IsNaN(score) || math.IsInf(score, 0) {
			return cursor{}, ErrCursor
		}
		// As Redis writes it: Go reads forms that Redis does not.
		c.Score = strconv.FormatFloat(score, 'g', 17, 64)
	}
	return c, nil
}

// pagePart makes one call, adds what it finds to the page, and moves the
// cursor.
func (s *Store) pagePart(ctx context.Context, page *Page, at *cursor, q Query) (more bool, err error) {
	four := s.space.States(keys.Partition{Prefix: at.Prefix, Shard: at.Shard})
	zset := []string{four[0], four[2], four[3]}[at.Set]
	claimed, fraction, reason, prefix := "", "", "", ""
	switch q.State {
	case notice.Scheduled:
		claimed = "0"
	case notice.Claimed:
		claimed = "1"
	case notice.Delivered:
		fraction = "0"
	case notice.Cancelled:
		fraction = "0.5"
	}
	if q.Reason != "" {
		reason = `,"reason":"` + string(q.Reason) + `"`
	}
	if q.Prefix != "" {
		prefix = q.Prefix + ":"
	}
	if len(q.Begins) > len(prefix) {
		prefix = q.Begins
	}
	look := lookPerCall
	if q.Reason != "" || q.Host != "" {
		look = readPerCall
	}
	lo, hi := "-inf", "+inf"
	if !q.Since.IsZero() {
		lo = strconv.FormatInt(q.Since.UnixMilli(), 10)
	}
	if !q.Until.IsZero() {
		hi = strconv.FormatInt(q.Until.UnixMilli(), 10) + ".99"
	}
	v, err := s.w.Run(ctx, pageScript, []string{zset, four[1]}, []any{s.space.ClaimPrefix(at.Shard), lo, hi, at.Score, at.Key, look,
		q.Limit - len(page.Items), prefix, claimed, fraction, reason, q.Host, q.Contains})
	if err != nil {
		return false, err
	}
	if len(v) < 4 {
		return false, fmt.Errorf("page: %d answers", len(v))
	}
	looked, _ := v[3].(int64)
	page.Looked += int(looked)
	for i := 4; i+3 < len(v); i += 4 {
		key, _ := v[i].(string)
		scores := [sets]any{"", "", ""}
		scores[at.Set] = v[i+1]
		f, err := found(key, at.Prefix, []any{v[i+3], scores[setShadow], v[i+2], scores[setDead], scores[setSettled]})
		if err != nil {
			return false, err
		}
		if q.Reason != "" && f.Reason != q.Reason {
			continue // the text stood elsewhere in the record
		}
		f.Shard = at.Shard
		page.Items = append(page.Items, f)
	}
	if last, _ := v[1].(string); last != "" {
		at.Score, _ = v[0].(string)
		at.Key = last
	}
	return v[2] == int64(1), nil
}

// RedriveAll redrives one page's worth of the dead letters that fit q, or
// only counts them. Call
// again with the cursor until it is empty.
func (s *Store) RedriveAll(ctx context.Context, q Query, dryRun bool) (Redriven, error) {
	q.State = notice.Dead
	q.Limit = 500
	p, err := s.List(ctx, q)
	if err != nil {
		return Redriven{}, err
	}
	out := Redriven{Matched: len(p.Items), Cursor: p.Cursor, Missing: p.Missing}
	if dryRun {
		return out, nil
	}
	list := make([]Amended, len(p.Items))
	for i, f := range p.Items {
		list[i] = Amended{Prefix: f.Route, Key: f.Key}
	}
	var missing []wire.Lost
	out.Redriven, missing, err = s.AmendMany(ctx, Redrive, list)
	out.Missing = wire.Together(p.Missing, missing)
	return out, err
}

// Query asks for a page of notices.
type Query struct {
	Routes []string // prefixes of routes to look in, in order
	// Prefix is app, app:module or app:module:type: what the keys lie under, at
	// a segment's border. Empty = all.
	Prefix string
	// Begins and Contains are texts in keys, anywhere in a segment; Begins lies
	// under Prefix. Empty = any.
	Begins, Contains string
	State            notice.State
	Reason           notice.Reason // of dead ones
	// Host, in lower case, stands somewhere in what is found: whether it is that of
	// the notice's address, the caller has to look. Empty = any.
	Host   string
	Since  time.Time // by due, settled or dead time, according to the state
	Until  time.Time
	Limit  int
	Cursor string
}

// Page is a part of a listing. An empty Cursor means there is no more; a page
// may be shorter than the limit, even empty, although more follow, because a
// call looks at a bounded number of entries.
type Page struct {
	Items  []Found
	Cursor string
	Looked int // how many entries were looked at
	// Missing are nodes of a cluster that do not answer: what lies there was passed
	// over, and no cursor leads back to it.
	Missing []wire.Lost
}

// Redriven answers a bulk redrive's step.
type Redriven struct {
	Matched  int         // dead letters that fit the filter
	Redriven int         // of them, scheduled again (0 in a dry run)
	Cursor   string      // empty = done
	Missing  []wire.Lost // as of a Page: their dead letters are left as they are
}

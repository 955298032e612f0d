package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"iter"
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

// cursor is the position of a listing: routes in order, in each route the shards, in each shard the
// zsets.
type cursor struct {
	Prefix string `json:"p"`
	Shard  int    `json:"s,omitempty"`
	Set    int    `json:"z,omitempty"`
	Score  string `json:"v,omitempty"`
	Key    string `json:"k,omitempty"`
	// Former is the number of old shards. A cursor of a listing that began before a reshard is
	// invalid.
	Former int `json:"f,omitempty"`
}

// The zsets, in the order in which a notice passes through them. So a notice that changes its state
// during a listing is listed later, and not missed.
const (
	setShadow = iota
	setDead
	setSettled
	setWaiting // parked notices, which are in the shadow too
	sets
)

func setsOf(q Query) []int {
	if q.Waiting {
		return []int{setWaiting}
	}

	switch q.State {
	case notice.Scheduled, notice.Claimed:
		return []int{setShadow}
	case notice.Dead:
		return []int{setDead}
	case notice.Delivered, notice.Cancelled:
		return []int{setSettled}
	}

	return []int{setShadow, setDead, setSettled}
}

// Limits of the calls for one page. A call reads at most lookPerCall entries, or readPerCall if it must also
// read their records; either takes about 2 ms in Redis. A page is made by at most callsPerPage calls.
const (
	lookPerCall  = 1000
	readPerCall  = 250
	callsPerPage = 8
)

// List returns a page of the notices that match q. Page.Cursor is the start of the next page. A notice that changes or
// moves during the listing may be listed twice or not at all; all others are listed exactly once. In a cluster, the
// notices of unreachable nodes are skipped, and Page.Missing names these nodes.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
	at, err := readCursor(q.Cursor)
	if err == nil && q.Cursor != "" && (!slices.Contains(q.Routes, at.Prefix) || at.Shard >= s.space.Places() ||
		at.Former != s.space.First()) {
		err = ErrCursor // of another configuration
	}

	if err != nil {
		return Page{}, err
	}

	page, r := Page{}, s.w.NewRound()
	if page.Cursor, err = s.pages(ctx, q, at, &page, r); err != nil {
		return Page{}, err
	}
	if err := s.addPageWaits(ctx, &page, r); err != nil {
		return Page{}, err
	}
	if page.Missing, err = r.Missing(ctx); err != nil {
		return Page{}, err
	}

	return page, nil
}

// addPageWaits is AddWaits for a page. It skips unreachable nodes.
func (s *Store) addPageWaits(ctx context.Context, page *Page, r *wire.Round) error {
	by := map[int][]*Found{}
	for i := range page.Items {
		if f := &page.Items[i]; f.mayWait() {
			by[f.Shard] = append(by[f.Shard], f)
		}
	}

	for shard, list := range by {
		if _, err := r.Do(ctx, shard, func(ctx context.Context) error { return s.AddWaits(ctx, list...) }); err != nil {
			return err
		}
	}

	return nil
}

// pages fills a page from a cursor on, and returns the cursor of the next page.
func (s *Store) pages(ctx context.Context, q Query, at cursor, page *Page, r *wire.Round) (next string, err error) {
	calls := 0
	for here := range s.parts(q, at) {
		if q.moving && here.entersCurrent() {
			if err := s.finishMoves(ctx); err != nil {
				return "", err
			}
		}

		for more := true; more; calls++ {
			if len(page.Items) >= q.Limit || calls >= callsPerPage {
				return here.String(), nil
			}

			more = false
			if _, err := r.Do(ctx, here.Shard, func(ctx context.Context) (err error) {
				more, err = s.pagePart(ctx, page, &here, q)
				return err
			}); err != nil {
				return "", err
			}
		}
	}

	return "", nil
}

// parts yields the start of each zset of a listing from a cursor on. The first one is the cursor.
func (s *Store) parts(q Query, at cursor) iter.Seq[cursor] {
	first, start := s.space.First(), max(slices.Index(q.Routes, at.Prefix), 0)
	return func(yield func(cursor) bool) {
		for _, prefix := range q.Routes[min(start, len(q.Routes)):] {
			for shard := at.Shard; shard < s.space.Places(); shard++ {
				for _, set := range setsOf(q) {
					if set < at.Set {
						continue
					}
					if !yield(cursor{prefix, shard, set, at.Score, at.Key, first}) {
						return
					}

					at = cursor{}
				}
				at = cursor{}
			}
			at = cursor{}
		}
	}
}

// entersCurrent reports whether a listing has read the old shards of a route and none of its current ones. Notices that
// are on their way between them now would arrive behind the cursor.
func (c *cursor) entersCurrent() bool { return c.Former > 0 && c.Shard == c.Former && c.Key == "" }

func (c cursor) String() string {
	text, _ := json.Marshal(c)
	return string(text)
}

// readCursor is the inverse of String; an empty text is the start. Cursors of clients are sealed by
// package api; nevertheless values that Redis would refuse are rejected.
func readCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}

	var c cursor
	if json.Unmarshal([]byte(text), &c) != nil || !c.valid() {
		return cursor{}, ErrCursor
	}

	if c.Score != "" {
		score, err := strconv.ParseFloat(c.Score, 64)
		if err != nil || math.IsNaN(score) || math.IsInf(score, 0) {
			return cursor{}, ErrCursor
		}

		// Normalized, because Go accepts notations that Redis does not.
		c.Score = scoreText(score)
	}

	return c, nil
}

func (c *cursor) valid() bool {
	return c.Shard >= 0 && c.Set >= 0 && c.Set < sets && (c.Score == "") == (c.Key == "")
}

// pagePart makes one call, adds its notices to the page, and moves the cursor.
func (s *Store) pagePart(ctx context.Context, page *Page, at *cursor, q Query) (more bool, err error) {
	four := s.space.States(keys.Partition{Prefix: at.Prefix, Shard: at.Shard})
	zset := []string{four[0], four[2], four[3], s.space.Waiting(keys.Partition{Prefix: at.Prefix, Shard: at.Shard})}[at.Set]
	args := append([]any{s.space.ClaimPrefix(at.Shard)}, q.args(at, len(page.Items))...)
	v, err := s.page(ctx, at.Shard, []string{zset, four[1]}, args)
	if err != nil {
		return false, err
	}

	looked, _ := v[3].(int64)
	page.Looked += int(looked)
	for i := 4; i+3 < len(v); i += 4 {
		key, _ := v[i].(string)
		scores := [sets]any{"", "", "", ""}
		scores[at.Set] = v[i+1]
		if at.Set == setWaiting {
			scores[setShadow] = v[i+1]
		}

		f, err := ReadFound(key, at.Prefix, []any{v[i+3], scores[setShadow], v[i+2], scores[setDead], scores[setSettled]})
		if err != nil {
			return false, err
		}
		if q.Reason != "" && f.Reason != q.Reason || q.Status != 0 && f.Cause().Status != q.Status {
			continue // another part of the record has that text
		}

		f.Waits = at.Set == setWaiting && f.State == notice.Scheduled // AddWaits reads its score
		f.Shard = at.Shard
		page.Items = append(page.Items, f)
	}

	if last, _ := v[1].(string); last != "" {
		at.Score, _ = v[0].(string)
		at.Key = last
	}

	return v[2] == int64(1), nil
}

// page calls page.lua, and repeats a call that got no reply with a smaller limit of bytes.
func (s *Store) page(ctx context.Context, shard int, ks []string, args []any) ([]any, error) {
	for {
		v, smaller, err := s.w.Replies(shard).Reply(wire.MaxBatchBytes, func(bytes int) ([]any, error) {
			return s.w.Parts(ctx, pageScript, 4, ks, append(args[:len(args):len(args)], bytes))
		})
		if !smaller || ctx.Err() != nil {
			return v, err
		}
	}
}

// args returns the arguments of page.lua after the claim prefix, for a page that has n notices already.
func (q *Query) args(at *cursor, n int) []any {
	claimed, fraction := q.ofState()
	reason, prefix := "", ""
	if q.Reason != "" && fraction == "" {
		reason = `,"reason":"` + string(q.Reason) + `"`
	}

	if q.Prefix != "" {
		prefix = q.Prefix + ":"
	}

	if len(q.Begins) > len(prefix) {
		prefix = q.Begins
	}

	look := lookPerCall
	if reason != "" || q.Host != "" {
		look = readPerCall
	}

	lo, hi := q.scores(at.Shard)
	return []any{lo, hi, at.Score, at.Key, look, q.Limit - n, prefix, claimed, fraction, reason, q.Host, q.Contains}
}

// ofState returns how page.lua recognizes the state in its zset: by a claim ("1" or "0"), or by the
// fraction of the score; "" = any.
func (q *Query) ofState() (claimed, fraction string) {
	switch q.State {
	case notice.Scheduled:
		return "0", ""
	case notice.Claimed:
		return "1", ""
	case notice.Delivered:
		return "", "0"
	case notice.Cancelled:
		return "", "0.5"
	case notice.Dead:
		if c := q.Cause(); c.Status != 0 {
			return "", scoreText(causeFraction(c))
		}
	}
	return "", ""
}

// scores returns the bounds of the time in a shard as scores.
func (q *Query) scores(shard int) (lo, hi string) {
	lo, hi = "-inf", "+inf"
	if !q.Since.IsZero() {
		lo = strconv.FormatInt(q.Since.UnixMilli(), 10)
	}

	until := q.Until
	if q.job != nil {
		if began := time.UnixMilli(q.job.last(shard)); until.IsZero() || began.Before(until) {
			until = began
		}
	}

	if !until.IsZero() {
		hi = strconv.FormatInt(until.UnixMilli(), 10) + ".99"
	}

	return lo, hi
}

// Query selects notices for List.
type Query struct {
	Routes []string // prefixes of the routes to list, in order
	// Prefix is the start of the keys in whole segments: app, app:module or app:module:type. Empty =
	// any.
	Prefix string
	// Begins is the start of the keys, and may end within a segment; it includes Prefix. Contains is a
	// text anywhere in the keys. Empty = any.
	Begins, Contains string
	State            notice.State
	// Waiting selects parked notices only, sorted by the time when their wait began. State is then empty
	// or Scheduled.
	Waiting bool
	Reason  notice.Reason // of dead ones
	Status  int           // of dead ones with this Reason, the HTTP status of their cause; 0 = any
	// Host is a text in lower case that the record contains in any case. The caller must check that it
	// is the host of the notice's address. Empty = any.
	Host   string
	Since  time.Time // by due, settled or dead time, according to the state; of parked ones by the start of their wait
	Until  time.Time
	Limit  int
	Cursor string

	job    *job // if not nil, only notices that died before it began
	moving bool // notices that are on their way to current shards arrive before these are listed
}

// Cause returns the cause that the query selects; zero = any.
func (q *Query) Cause() notice.Cause { return notice.Cause{Reason: q.Reason, Status: q.Status} }

// Page is a part of a listing. An empty Cursor means the end. A page may be shorter than the limit,
// even empty, and not be the last one, because a call reads a bounded number of entries.
type Page struct {
	Items  []Found
	Cursor string
	Looked int // number of entries read
	// Missing names unreachable nodes of a cluster. Their notices were skipped, and the cursor does not
	// return to them.
	Missing []wire.Lost
}

// Amends is the result of one step of a bulk change.
type Amends struct {
	Matched int         // matching dead letters
	Changed int         // number of changed ones (0 in a dry run)
	Cursor  string      // empty = done
	Missing []wire.Lost // unreachable nodes; their dead letters are unchanged
	Job     string      // the id of the change, which its notices carry
}

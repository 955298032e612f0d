package store

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"notifier/internal/notice"
)

//go:embed lua/page.lua
var pageSource string

var pageScript = newScript("page", pageSource, false)

// cursor is where a listing goes on: the routes in order, in each the shards,
// in each the zsets.
type cursor struct {
	Prefix string `json:"p"`
	Shard  int    `json:"s,omitempty"`
	Set    int    `json:"z,omitempty"`
	Score  string `json:"v,omitempty"`
	Key    string `json:"k,omitempty"`
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

// lookPerCall bounds how many entries one call looks at, and callsPerPage how
// many calls one page may take.
const (
	lookPerCall  = 1000
	callsPerPage = 8
)

// List reads a page. Notices that stay as they are during a listing are seen
// exactly once; one that changes its state may be seen twice, or, if it is
// redriven, not at all.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
	at := cursor{}
	if q.Cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err != nil || json.Unmarshal(text, &at) != nil || !slices.Contains(q.Routes, at.Prefix) ||
			at.Shard < 0 || at.Shard >= max(s.space.Shards, 1) || at.Set < 0 || at.Set >= sets {
			return Page{}, ErrCursor
		}
		if _, err := strconv.ParseFloat(at.Score, 64); at.Score != "" && err != nil {
			return Page{}, ErrCursor
		}
	}
	var page Page
	calls := 0
	start := max(slices.Index(q.Routes, at.Prefix), 0)
	for _, prefix := range q.Routes[min(start, len(q.Routes)):] {
		for shard := at.Shard; shard < max(s.space.Shards, 1); shard++ {
			for _, set := range setsOf(q.State) {
				if set < at.Set {
					continue
				}
				for {
					here := cursor{prefix, shard, set, at.Score, at.Key}
					if len(page.Items) >= q.Limit || calls >= callsPerPage {
						page.Cursor = here.String()
						return page, nil
					}
					calls++
					more, err := s.pagePart(ctx, &page, &here, q)
					if err != nil {
						return Page{}, err
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
	return page, nil
}

func (c cursor) String() string {
	text, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(text)
}

// pagePart makes one call, adds what it finds to the page, and moves the
// cursor.
func (s *Store) pagePart(ctx context.Context, page *Page, at *cursor, q Query) (more bool, err error) {
	four := s.four(at.Shard, at.Prefix)
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
	lo, hi := "-inf", "+inf"
	if !q.Since.IsZero() {
		lo = strconv.FormatInt(q.Since.UnixMilli(), 10)
	}
	if !q.Until.IsZero() {
		hi = strconv.FormatInt(q.Until.UnixMilli(), 10) + ".99"
	}
	v, err := s.run(ctx, pageScript, []string{zset, four[1]}, []any{s.space.ClaimPrefix(at.Shard), lo, hi, at.Score, at.Key, lookPerCall,
		q.Limit - len(page.Items), prefix, claimed, fraction, reason})
	if err != nil {
		return false, err
	}
	if len(v) < 3 {
		return false, fmt.Errorf("page: %d answers", len(v))
	}
	for i := 3; i+3 < len(v); i += 4 {
		key, _ := v[i].(string)
		scores := [sets]any{"", "", ""}
		scores[at.Set] = v[i+1]
		if v[i+3] == "" {
			continue // it went away
		}
		f, err := found(key, at.Prefix, []any{v[i+3], scores[setShadow], v[i+2], scores[setDead], scores[setSettled]})
		if err != nil {
			return false, err
		}
		if q.Reason != "" && f.Reason != q.Reason {
			continue // the text stood elsewhere in the record
		}
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
	out := Redriven{Matched: len(p.Items), Cursor: p.Cursor}
	if dryRun {
		return out, nil
	}
	type place struct {
		prefix string
		shard  int
	}
	by := map[place][]string{}
	for _, f := range p.Items {
		at := place{f.Route, s.space.Shard(f.Key)}
		by[at] = append(by[at], f.Key)
	}
	for at, ks := range by {
		done, err := s.AmendMany(ctx, at.prefix, at.shard, ks, Redrive, time.Time{}, 0, nil)
		if err != nil {
			return out, err
		}
		for _, c := range done {
			if c.Done {
				out.Redriven++
			}
		}
	}
	return out, nil
}

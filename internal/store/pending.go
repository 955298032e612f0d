package store

import (
	"context"
	"encoding/json"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// pendingPage is the maximum number of notices that one call of Pending reads.
const pendingPage = 200

// pendingCursor is the position after a page: Skip notices with the score were read.
type pendingCursor struct {
	Shard int    `json:"s"`
	Score string `json:"v,omitempty"`
	Skip  int64  `json:"n,omitempty"`
}

// Pending returns a page of a route's pending notices that are not claimed, by shard and next attempt. after is the
// cursor of the previous page, empty for the first; the last page has no cursor. Pending is about ten times cheaper
// than [Store.List], but may miss notices if some change during the listing. Page.Missing names unreachable nodes.
func (s *Store) Pending(ctx context.Context, prefix, after string) (Page, error) {
	var at pendingCursor
	if after != "" && (json.Unmarshal([]byte(after), &at) != nil || at.Shard < 0 || at.Shard >= s.space.Places()) {
		return Page{}, ErrCursor
	}

	page, full, r := Page{}, false, s.w.NewRound()
	if _, err := r.Do(ctx, at.Shard, func(ctx context.Context) (err error) {
		full, err = s.pendingPart(ctx, prefix, &at, &page)
		return s.w.Wrapped("page", err)
	}); err != nil {
		return Page{}, err
	}

	if !full {
		at = pendingCursor{Shard: at.Shard + 1}
	}

	if at.Shard < s.space.Places() {
		text, _ := json.Marshal(at) // of numbers and texts
		page.Cursor = string(text)
	}

	var err error
	page.Missing, err = r.Missing(ctx)
	return page, err
}

// pendingPart reads a page of one shard and moves the cursor. It reports whether there may be more.
func (s *Store) pendingPart(ctx context.Context, prefix string, at *pendingCursor, page *Page) (full bool, err error) {
	four := s.space.States(keys.Partition{Prefix: prefix, Shard: at.Shard})
	from := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Offset: at.Skip, Count: pendingPage}
	if at.Score != "" {
		from.Min = at.Score
	}

	entries, err := s.c.ZRangeByScoreWithScores(ctx, four[0], from).Result()
	if err != nil || len(entries) == 0 {
		return false, err
	}

	names, claims := make([]string, len(entries)), make([]string, len(entries))
	for i, z := range entries {
		names[i], _ = z.Member.(string)
		claims[i] = s.space.ClaimPrefix(at.Shard) + names[i]
		at.moveBehind(scoreText(z.Score))
	}

	var claimed, records *redis.SliceCmd
	if _, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		claimed, records = p.MGet(ctx, claims...), p.HMGet(ctx, four[1], names...)
		return nil
	}); err != nil {
		return false, err
	}

	page.Looked = len(entries)
	for i, z := range entries {
		if claimed.Val()[i] != nil {
			continue
		}

		text, _ := records.Val()[i].(string)
		f, err := ReadFound(names[i], prefix, []any{text, scoreText(z.Score), int64(0), "", ""})
		if err != nil {
			return false, err
		}

		f.Shard = at.Shard
		page.Items = append(page.Items, f)
	}

	return len(entries) == pendingPage, nil
}

// moveBehind moves the cursor behind one more notice.
func (c *pendingCursor) moveBehind(score string) {
	if score != c.Score {
		c.Score, c.Skip = score, 0
	}
	c.Skip++
}

package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Bulk is a change of all matching dead letters, in several steps. It takes the dead letters that were there when its first
// step began, and none of them twice, although notices that it redrives may die again before its last step.
type Bulk struct {
	Query
	Op     Amendment // Redrive or Purge
	DryRun bool
	Fits   func(f *Found) bool // nil = all match
	// Delay returns the delay of the nth redriven notice of a step, from 0; nil = none.
	Delay func(n int) time.Duration
}

// Paced returns the delay of the nth notice, from 0, of a redrive with a rate a second.
func Paced(n int, rate float64) time.Duration {
	return time.Duration(float64(n) / rate * float64(time.Second))
}

// AmendAll changes, or in a dry run counts, the matching dead letters of one page. An example is the redrive of a
// route. The caller repeats the call with the returned cursor until the cursor is empty.
func (s *Store) AmendAll(ctx context.Context, b Bulk) (Amends, error) {
	q := b.Query
	q.State, q.Limit = notice.Dead, 500
	j, lost, err := s.jobOf(ctx, q.Cursor)
	if err != nil {
		return Amends{}, err
	}

	q.Cursor, q.job = string(j.At), &j
	p, err := s.List(ctx, q)
	if err != nil {
		return Amends{}, err
	}

	var now time.Time
	redrives := b.DryRun && b.Op == Redrive
	if redrives { // the script itself refuses a redrive of an expired notice
		if now, err = s.w.Now(ctx); err != nil {
			return Amends{}, err
		}
	}

	list := make([]Amended, 0, len(p.Items))
	for i := range p.Items {
		f := &p.Items[i]
		if f.Job == j.ID || b.Fits != nil && !b.Fits(f) {
			continue
		}

		if redrives && f.Expired(now) {
			continue
		}

		a := Amended{Prefix: f.Route, Key: f.Key}
		if b.Delay != nil {
			a.When = When{Delay: b.Delay(len(list))}
		}

		list = append(list, a)
	}

	out := Amends{Matched: len(list), Cursor: j.cursor(p.Cursor), Missing: wire.Together(lost, p.Missing), Job: j.ID}
	if b.DryRun {
		return out, nil
	}

	var missing []wire.Lost
	out.Changed, missing, err = s.amendMany(ctx, b.Op, list, &j)
	out.Missing = wire.Together(out.Missing, missing)
	return out, err
}

// job is a bulk change that has begun. The cursor of the change is a job.
type job struct {
	ID string `json:"j"`
	// Began is when it began, by the clock of each shard's Redis: varints of Unix ms, after the first one of the difference
	// to it. There is only one where all shards are in one Redis. A shard whose node did not answer has 0.
	Began []byte `json:"t"`
	// At is the cursor of the listing.
	At json.RawMessage `json:"c,omitempty"`

	began []int64
}

const jobIDLength = 10

// IsJob reports whether a text has the form of the id of a bulk change.
func IsJob(s string) bool {
	return len(s) == jobIDLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// jobOf returns the job of a cursor. With an empty cursor it begins one; lost are then the nodes that did not answer,
// whose dead letters the job skips.
func (s *Store) jobOf(ctx context.Context, text string) (j job, lost []wire.Lost, err error) {
	if text == "" {
		return s.beginJob(ctx)
	}

	if json.Unmarshal([]byte(text), &j) != nil || len(j.At) == 0 || !IsJob(j.ID) {
		return j, nil, ErrCursor
	}

	for rest := j.Began; len(rest) > 0; {
		ms, n := binary.Varint(rest)
		if n <= 0 {
			return j, nil, ErrCursor
		}

		if len(j.began) > 0 {
			ms += j.began[0]
		}

		j.began, rest = append(j.began, ms), rest[n:]
	}

	if len(j.began) == 0 {
		return j, nil, ErrCursor
	}

	return j, nil, nil
}

func (s *Store) beginJob(ctx context.Context) (j job, lost []wire.Lost, err error) {
	j = job{ID: strings.ToLower(rand.Text()[:jobIDLength]), began: make([]int64, 1)}
	if s.w.Cluster {
		j.began = make([]int64, s.space.Places())
	}

	r, read := s.w.NewRound(), map[string]int64{} // by node
	for shard := range j.began {
		base := s.space.Base(shard)
		master := s.w.Master(ctx, base)
		if _, err := r.Do(ctx, shard, func(ctx context.Context) error {
			if read[master] == 0 {
				now, err := s.w.Holder(ctx, base).Time(ctx).Result()
				if err != nil {
					return s.w.Fail(amendScript.Op, err)
				}

				read[master] = now.UnixMilli()
			}

			j.began[shard] = read[master]
			return nil
		}); err != nil {
			return j, nil, err
		}
	}

	for i, ms := range j.began {
		if i > 0 {
			ms -= j.began[0]
		}
		j.Began = binary.AppendVarint(j.Began, ms)
	}

	lost, err = r.Missing(ctx)
	return j, lost, err
}

// cursor returns the cursor of the job at a position of its listing; empty at the end.
func (j job) cursor(at string) string {
	if at == "" {
		return ""
	}

	j.At = json.RawMessage(at)
	text, _ := json.Marshal(j)
	return string(text)
}

// last returns the ms of the last death that the job takes in a shard.
func (j *job) last(shard int) int64 { return j.began[min(shard, len(j.began)-1)] }

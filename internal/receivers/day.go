package receivers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// mostAnswers is the maximum number of stored answers of a receiver.
const mostAnswers = 10

// Day has the answers of a receiver within the last 24 hours. Attempts before its first failure are
// missing.
type Day struct {
	Hours   []Hour    // in order; hours without attempts are missing
	Answers []Attempt // the last mostAnswers, latest first
}

// Hour counts the attempts of one hour.
type Hour struct {
	At               time.Time
	Attempts, Failed int
	Mean             time.Duration // mean duration of an attempt
}

// Day reads the day of a receiver of a route.
func (s *HealthStore) Day(ctx context.Context, prefix, receiver string) (Day, error) {
	text, err := s.Wire.Redis.HGet(ctx, s.Wire.Space.HealthDay(prefix), receiver).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return Day{}, s.Wire.Fail(mergeScript.Op, err)
	}

	return readDay(text, s.Wire.Clock.Now()), nil
}

// readDay reads an entry: see merge.lua. It skips parts that it cannot read.
func readDay(text string, now time.Time) (d Day) {
	hours, answers, _ := strings.Cut(text, "|")
	for part := range strings.SplitSeq(hours, ",") {
		var at, n, failed, ms int64
		if _, err := fmt.Sscanf(part, "%d:%d:%d:%d", &at, &n, &failed, &ms); err != nil || n < 1 {
			continue
		}

		h := Hour{At: time.Unix(at*3600, 0).UTC(), Attempts: int(n), Failed: int(failed), Mean: time.Duration(ms/n) * time.Millisecond}
		if now.Sub(h.At) < 24*time.Hour {
			d.Hours = append(d.Hours, h)
		}
	}

	for part := range strings.SplitSeq(answers, ",") {
		var at, ms int64
		var a Attempt
		if _, err := fmt.Sscanf(part, "%d %d %d", &at, &a.Status, &ms); err != nil {
			continue
		}

		if words := strings.SplitN(part, " ", 4); len(words) == 4 {
			a.Reason = words[3]
		}

		a.At, a.Took, a.Failed = instant(at), time.Duration(ms)*time.Millisecond, a.Reason != ""
		d.Answers = append(d.Answers, a)
	}

	slices.SortFunc(d.Hours, func(a, b Hour) int { return a.At.Compare(b.At) })
	slices.SortStableFunc(d.Answers, func(a, b Attempt) int { return cmp.Or(b.At.Compare(a.At)) })
	return d
}

// answersText is answers in the form of an entry, the latest first.
func answersText(list []Attempt) string {
	var out []string
	for _, a := range slices.Backward(list) {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d %d %d %s", a.At.UnixMilli(), a.Status, a.Took.Milliseconds(), a.Reason)))
	}

	return strings.Join(out, ",")
}

// LastHour returns the attempts of the receivers of some prefixes, by prefix and receiver, in the clock hours that the last
// hour overlaps.
func (s *HealthStore) LastHour(ctx context.Context, prefixes []string) (map[string]map[string]Hour, error) {
	replies := make([]*redis.MapStringStringCmd, len(prefixes))
	if _, err := s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, prefix := range prefixes {
			replies[i] = p.HGetAll(ctx, s.Wire.Space.HealthDay(prefix))
		}
		return nil
	}); err != nil {
		return nil, s.Wire.Fail(mergeScript.Op, err)
	}

	out, now := map[string]map[string]Hour{}, s.Wire.Clock.Now()
	for i, prefix := range prefixes {
		out[prefix] = map[string]Hour{}
		for name, text := range replies[i].Val() {
			sum := Hour{}
			for _, h := range readDay(text, now).Hours {
				if now.Sub(h.At) < 2*time.Hour {
					sum.Attempts, sum.Failed = sum.Attempts+h.Attempts, sum.Failed+h.Failed
				}
			}

			out[prefix][name] = sum
		}
	}

	return out, nil
}

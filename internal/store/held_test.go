package store

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

const pausedHost = "host/old.example/"

// hold schedules a notice that is due now, claims it and lists it as held by a pause of old.example for that time.
func (s *Store) hold(t *testing.T, key string, after time.Duration) Found {
	t.Helper()
	s.put(t, Request{Key: key, Content: notice.Content{URL: "https://old.example/a", Headers: []notice.Header{{Name: "X-A", Value: "1"}}}})
	s.end(t, Settlement{Claim: s.take(t, key, "t"), Ending: EndPostponed, After: after, Held: notice.HeldPaused, KeepRecord: true,
		Pause: pausedHost})
	f, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// holds fails unless exactly these notices of a partition are listed as held by the pause of old.example, with their scores.
func (s *Store) holds(t *testing.T, c redis.UniversalClient, p keys.Partition, want ...string) {
	t.Helper()
	listed, by := c.ZRange(t.Context(), s.space.Held(p), 0, -1).Val(), c.HGetAll(t.Context(), s.space.Holds(p)).Val()
	for i := range want {
		score := c.ZScore(t.Context(), s.space.Shadow(p), want[i]).Val()
		if w := strconv.FormatFloat(score, 'g', 17, 64) + " " + pausedHost; by[want[i]] != w {
			t.Errorf("%s is held by %q, want %q", want[i], by[want[i]], w)
		}
		want[i] = pausedHost + " " + want[i]
	}
	if !slices.Equal(listed, want) || len(by) != len(want) {
		t.Errorf("held are %q and %q, want %q", listed, by, want)
	}
}

// A held notice whose url or headers change is due now. Its due time, attempts, cause of waiting and position in its sequence
// stay. A held notice whose change is refused stays held.
func TestReaddressReleasesHeldNotice(t *testing.T) {
	t.Parallel()
	for _, is := range []struct {
		name    string
		ordered bool
		change  notice.Address
	}{
		{"url", false, notice.Address{URL: "https://new.example/b"}},
		{"headers", false, notice.Address{URL: "https://old.example/a", Headers: []notice.Header{{Name: "X-A", Value: "2"}},
			SetHeaders: true}},
		{"url of an ordered notice", true, notice.Address{URL: "https://new.example/b"}},
	} {
		t.Run(is.name, func(t *testing.T) {
			t.Parallel()
			s, srv := open(t)
			ctx, c := t.Context(), srv.Client()
			if is.ordered {
				if err := s.ordered(ctx, c, false); err != nil {
					t.Fatal(err)
				}
			}
			const key, other = "app1:a:b:1", "app1:a:b:2"
			f := s.hold(t, key, time.Hour)
			s.hold(t, other, time.Hour)
			before, err := s.sequences(ctx, c, partition)
			if err != nil {
				t.Fatal(err)
			}

			stale := f
			stale.record += " "
			if got, err := s.Readdress(ctx, stale, f.Readdress(is.change), nil); err != nil || got.Done {
				t.Fatalf("a change of another record: %+v, %v", got, err)
			}
			s.holds(t, c, partition, key, other)

			sub := c.Subscribe(ctx, s.space.Wake())
			defer func() { _ = sub.Close() }()
			if _, err := sub.Receive(ctx); err != nil {
				t.Fatal(err)
			}
			got, err := s.Readdress(ctx, f, f.Readdress(is.change), nil)
			if err != nil || !got.Done || got.State != notice.Scheduled || !got.Due.Equal(f.Due) || got.AttemptsMade != 0 {
				t.Fatalf("%+v, %v", got, err)
			}
			s.holds(t, c, partition, other)
			if m, err := sub.ReceiveTimeout(ctx, 10*time.Second); err != nil {
				t.Errorf("no wake message: %v, %v", m, err)
			}
			after, err := s.sequences(ctx, c, partition)
			if err != nil || !slices.Equal(after.members, before.members) {
				t.Errorf("the sequences were %q, are %q, %v", before.members, after.members, err)
			}
			if claim := s.take(t, key, "t2"); claim.Held != notice.HeldPaused || claim.NextAttempt() != 1 || claim.URL != is.change.URL {
				t.Errorf("claimed as %s, attempt %d, %s", claim.Held, claim.NextAttempt(), claim.URL)
			}
		})
	}
}

// A producer's script that replaces a held notice, also one under another prefix, takes it off the list.
func TestProducersScriptRemovesReplacedNoticeFromHeldList(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ctx, c, p := t.Context(), srv.Client(), newProducer(t, s)
	ks := []string{"app1:a:b:1", "app1:a:b:2", "app1:a:b:3"}
	for _, k := range ks {
		s.hold(t, k, time.Hour)
	}
	const longer = "app1:a"
	if err := c.SAdd(ctx, s.space.Base(0)+"routes", longer).Err(); err != nil {
		t.Fatal(err)
	}
	if due, err := p.Run(ctx, c, p.keys(ks[0]), ks[0], "+60000", "reject", "x").Int64(); err != nil || due != 0 {
		t.Fatalf("%d, %v", due, err)
	}
	s.holds(t, c, partition, slices.Clone(ks)...)
	for _, names := range [][]string{p.keys(ks[0]), append(s.space.States(partition.Under(longer)), ks[1])} {
		if due, err := p.Run(ctx, c, names, names[4], "+60000", "replace", "x").Int64(); err != nil || due == 0 {
			t.Fatalf("%d, %v", due, err)
		}
	}
	s.holds(t, c, partition, ks[2])
}

// A restarted Redis has lost the claim of a held notice: score and list are those from before. The claim's settle is valid, and
// takes the notice off the list.
func TestSettleOfLostClaimRemovesNoticeFromHeldList(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	for i, ending := range []Ending{EndDelivered, EndDead, EndRetry, EndPostponed} {
		key := "app1:a:b:" + strconv.Itoa(i)
		f := s.hold(t, key, time.Millisecond)
		s.due(t, f.NextAttemptAt())
		score, listed := c.ZScore(ctx, s.space.Shadow(partition), key).Val(), c.HGet(ctx, s.space.Holds(partition), key).Val()
		claim := s.take(t, key, "t2")
		s.holds(t, c, partition)
		c.Del(ctx, s.space.ClaimPrefix(0)+key)
		c.ZAdd(ctx, s.space.Shadow(partition), redis.Z{Score: score, Member: key})
		c.ZAdd(ctx, s.space.Held(partition), redis.Z{Member: pausedHost + " " + key})
		c.HSet(ctx, s.space.Holds(partition), key, listed)
		if got := s.end(t, Settlement{Claim: claim, Ending: ending, After: time.Hour}); got.Stale {
			t.Errorf("%v: the settle is refused", ending)
		}
		s.holds(t, c, partition)
	}
}

// An imported notice of another Redis replaces an older one, which was held here.
func TestImportRemovesReplacedNoticeFromHeldList(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	const key = "app1:a:b:1"
	f := s.hold(t, key, time.Hour)
	due := time.Now().Add(2 * time.Hour).UnixMilli()
	stay, err := s.Layout.PutIn(t.Context(), s.space.States(partition), []any{"9", 1, s.space.Wake(), partition.Wake(), "1",
		key, fmt.Sprintf(`%d - - {"due":%d,"made":%d}`, due, due, f.Made+1), "1"})
	if err != nil || len(stay) > 0 || s.state(t, key) != notice.Scheduled {
		t.Fatalf("%q, %v", stay, err)
	}
	if score := srv.Client().ZScore(t.Context(), s.space.Shadow(partition), key).Val(); int64(score) != due {
		t.Errorf("the score is %f", score)
	}
	s.holds(t, srv.Client(), partition)
}

// Every script that changes the score of a pending notice, or removes one, keeps the held list.
func TestScriptsThatChangePendingNoticesKeepHeldList(t *testing.T) {
	exceptions := []string{
		"order.lua",   // changes parked notices, which win.lua has removed from the list
		"release.lua", // of package store: its callers have removed the notices; of package receivers: removes them itself
		"replay.lua",  // changes keys without a pending notice
		"restore.lua", // as replay.lua
	}
	files, err := filepath.Glob("../*/lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	changes := regexp.MustCompile(`'(ZREM|ZADD)', (KEYS\[(1|5|k|z|4 \+ z)\]|shadow\b|base \.\. 'shadow)`)
	keeps := regexp.MustCompile(`\b(unhold\(|replace\(KEYS|hold\(KEYS)|'ZREM', base \.\. 'held:'`)
	n := 0
	for _, f := range append(files, "../../deploy/schedule.lua") {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if !strings.Contains(text, "shadow") || !changes.MatchString(text) || slices.Contains(exceptions, filepath.Base(f)) {
			continue
		}
		n++
		if !keeps.MatchString(text) {
			t.Errorf("%s changes pending notices and does not keep the held list", f)
		}
	}
	if n < 9 {
		t.Errorf("only %d scripts change pending notices", n)
	}
}

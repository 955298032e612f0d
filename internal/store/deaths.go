package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/notice"
)

// The outbox of hooks. The script with which a notice of a route with a hook becomes dead appends an entry
// to the outbox of the notice's shard, in the same step. An instance that has the hook's route schedules the
// hook's notice, whose id is the death's, and then removes the entry. So a death is scheduled once, however
// often its entry is read.

// Death is an entry of the outbox of hooks.
type Death struct {
	// Hook is the prefix of the hook's route.
	Hook string
	// Facts is the body of the hook's notice, a JSON object without the time of the death.
	Facts []byte

	// Of an entry that was read: the death's id, and its time by Redis's clock.
	ID string
	At time.Time
}

// text returns the entry without the time, which the script adds.
func (d *Death) text(n *notice.Notice) string {
	sum := sha256.Sum256([]byte(n.Key))
	return hex.EncodeToString(sum[:8]) + "-" + strconv.FormatInt(int64(n.Made), 10) + " " + d.Hook + " " + string(d.Facts)
}

// ErrDeath is wrapped by the errors of ReadDeath.
var ErrDeath = errors.New("not an entry of the outbox of hooks")

// ReadDeath parses an entry of the outbox of hooks: "<time in µs> <digest of the key>-<generation>
// <prefix of the hook> <facts>". The death's id is digest, generation and time.
func ReadDeath(text string) (Death, error) {
	parts := strings.SplitN(text, " ", 4)
	if len(parts) != 4 {
		return Death{}, fmt.Errorf("%w: %d parts", ErrDeath, len(parts))
	}

	us, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || us <= 0 {
		return Death{}, fmt.Errorf("%w: %q is not a time", ErrDeath, parts[0])
	}

	return Death{Hook: parts[2], Facts: []byte(parts[3]), ID: parts[1] + "-" + parts[0], At: time.UnixMicro(us).UTC()}, nil
}

// Deaths reads n entries of a shard's outbox of hooks, beginning with entry number from.
func (s *Store) Deaths(ctx context.Context, shard, from, n int) ([]string, error) {
	list, err := s.w.Redis.LRange(ctx, s.space.Deaths(shard), int64(from), int64(from+n-1)).Result()
	return list, s.w.Wrapped("deaths", err)
}

// ForgetDeaths removes entries from a shard's outbox of hooks. An entry that is not in it any more is
// skipped.
func (s *Store) ForgetDeaths(ctx context.Context, shard int, texts []string) error {
	if len(texts) == 0 {
		return nil
	}

	_, err := s.w.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, text := range texts {
			p.LRem(ctx, s.space.Deaths(shard), 1, text)
		}
		return nil
	})
	return s.w.Wrapped("deaths", err)
}

// DeathsWaiting returns how many entries the outbox of hooks of a shard has.
func (s *Store) DeathsWaiting(ctx context.Context, shard int) (int64, error) {
	n, err := s.w.Redis.LLen(ctx, s.space.Deaths(shard)).Result()
	return n, s.w.Wrapped("deaths", err)
}

// Body returns the body of the hook's notice: the facts with the time of the death.
func (d *Death) Body() []byte {
	at := `{"settled_at":"` + notice.Stamp(d.At) + `"`
	if len(d.Facts) > 2 {
		at += ","
	}

	return append([]byte(at), d.Facts[min(1, len(d.Facts)):]...)
}

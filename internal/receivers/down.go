package receivers

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

//go:embed lua/down.lua
var downSource string

var downScript = wire.NewScript("outage", downSource, true).Anywhere()

// Outage is a receiver of which a hook is told that it is down. It is stored from before the notice `down` is scheduled
// until after the notice `up` is.
type Outage struct {
	Since       time.Time // names the outage in the ids of both notices, although the health may learn of earlier failures
	Sent        bool      // the notice `down` is scheduled
	Failures    int       // in a row, when the outage was stored, as LastFailure, Status and Reason are
	LastFailure time.Time
	Status      int // 0 = no HTTP answer
	Reason      string
}

// NewOutage returns the outage of a receiver that fails.
func NewOutage(r *Health) Outage {
	return Outage{Since: r.Since, Failures: r.Failures, LastFailure: r.LastAttempt, Status: r.Status, Reason: r.Reason}
}

// Ended reports whether the receiver has answered since the outage began.
func (o *Outage) Ended(r *Health) bool { return !r.LastSuccess.Before(o.Since) }

// ID returns the id of a notice about a receiver's outage. The event is `down` or `up`.
func (o *Outage) ID(receiver, event string) string {
	sum := sha256.Sum256([]byte(receiver))
	return hex.EncodeToString(sum[:8]) + "-" + strconv.FormatInt(o.Since.UnixMilli(), 10) + "-" + event
}

// text is the stored form: "since sent failures last_failure status reason".
func (o *Outage) text() string {
	if o == nil {
		return ""
	}

	sent := "0"
	if o.Sent {
		sent = "1"
	}

	return strings.Join([]string{strconv.FormatInt(o.Since.UnixMilli(), 10), sent, strconv.Itoa(o.Failures),
		strconv.FormatInt(o.LastFailure.UnixMilli(), 10), strconv.Itoa(o.Status), o.Reason}, " ")
}

func readOutage(text string) (o Outage, ok bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 6 {
		return o, false
	}

	var n [5]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return o, false
		}
	}

	return Outage{Since: instant(n[0]), Sent: n[1] == 1, Failures: int(n[2]), LastFailure: instant(n[3]), Status: int(n[4]),
		Reason: parts[5]}, true
}

// Outages reads the outages of a route by receiver, and Redis's time. Entries that cannot be read are skipped. The
// hash is kept for 48 hours after the last call.
func (s *HealthStore) Outages(ctx context.Context, prefix string) (list map[string]Outage, now time.Time, err error) {
	all, now, err := s.entries(ctx, s.Wire.Space.HealthDown(prefix))
	list = map[string]Outage{}
	for name, text := range all {
		if o, ok := readOutage(text); ok {
			list[name] = o
		}
	}

	return list, now, err
}

// SetOutage replaces the outage of a receiver, and reports whether it did: it does not if another instance has changed
// the entry since it was read. A nil outage is none.
func (s *HealthStore) SetOutage(ctx context.Context, prefix, receiver string, old, o *Outage) (bool, error) {
	return s.replace(ctx, s.Wire.Space.HealthDown(prefix), receiver, old.text(), o.text())
}

// Causes reads the causes of which a hook's team is told by their names, and Redis's time. The hash is kept for 48 hours
// after the last call.
func (s *HealthStore) Causes(ctx context.Context, hook string) (map[string]string, time.Time, error) {
	return s.entries(ctx, s.Wire.Space.HealthCauses(hook))
}

// SetCause replaces a cause, and reports whether it did, as SetOutage does. An empty text is none.
func (s *HealthStore) SetCause(ctx context.Context, hook, name, old, text string) (bool, error) {
	return s.replace(ctx, s.Wire.Space.HealthCauses(hook), name, old, text)
}

// entries reads a hash, and Redis's time.
func (s *HealthStore) entries(ctx context.Context, key string) (list map[string]string, now time.Time, err error) {
	if now, err = s.Wire.Now(ctx); err != nil {
		return nil, now, err
	}

	var all *redis.MapStringStringCmd
	if _, err = s.Wire.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		all = p.HGetAll(ctx, key)
		p.PExpire(ctx, key, Kept)
		return nil
	}); err != nil {
		return nil, now, s.Wire.Fail(downScript.Op, err)
	}

	return all.Val(), now, nil
}

// replace runs the script.
func (s *HealthStore) replace(ctx context.Context, key, name, old, text string) (bool, error) {
	n, err := s.Wire.Do(ctx, downScript, []string{key}, []any{name, old, text, Kept.Milliseconds()}).Int64()
	if err != nil {
		return false, s.Wire.Fail(downScript.Op, err)
	}

	return n == 1, nil
}

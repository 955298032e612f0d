package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/wire"
)

// The lock of a mover.
const (
	holdFor    = 15 * time.Second // the lock expires without renewal
	renewEvery = 4 * time.Second
	pollEvery  = 100 * time.Millisecond
)

// ErrLockLost means that another mover may have begun, because the lock could not be renewed in time.
var ErrLockLost = errors.New("lost the lock against other movers; run the command again")

// holder locks one Redis against other movers.
type holder struct {
	redis  Redis
	token  string
	line   fleet.Subscription
	cancel context.CancelCauseFunc
	ended  sync.WaitGroup
}

// exclusive locks a Redis against other reshards and migrations until release is called. If the lock
// is lost, held is cancelled with ErrLockLost.
func exclusive(ctx context.Context, s Redis) (held context.Context, release func(), err error) {
	h := &holder{redis: s, token: "reshard-" + rand.Text()}
	held, h.cancel = context.WithCancelCause(ctx)
	if h.line, err = listen(held, s, h.token); err != nil {
		h.cancel(nil)
		return nil, nil, err
	}

	h.ended.Go(func() { h.subscribe(held) })

	ok, err := s.hold(ctx, h.token, holdFor)
	if err == nil && !ok {
		err = fmt.Errorf("%w: another reshard or migration is running; if it lost its connection, its lock expires within %s", ErrRefused,
			holdFor)
	}

	if err != nil {
		h.end()
		return nil, nil, err
	}

	h.ended.Go(func() { h.renew(held) })
	return held, func() {
		h.end()
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = s.release(last, h.token) // otherwise the lock expires
	}, nil
}

// subscribe keeps the subscription that shows other movers that this process is alive.
func (h *holder) subscribe(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := h.line.Next(ctx); err == nil {
			continue
		}

		select { // the client reconnects
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// renew renews the lock until it is lost.
func (h *holder) renew(ctx context.Context) {
	until := time.Now().Add(holdFor)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewEvery):
		}

		from := time.Now()
		switch ok, err := h.redis.hold(ctx, h.token, holdFor); {
		case err == nil && ok:
			until = from.Add(holdFor)
		case err == nil || time.Now().After(until):
			h.cancel(ErrLockLost)
			return
		}
	}
}

func (h *holder) end() {
	h.cancel(nil)
	_ = h.line.Close()
	h.ended.Wait()
}

// listen opens the subscription that shows other movers that this process is alive.
func listen(ctx context.Context, s Redis, token string) (fleet.Subscription, error) {
	line, err := fleet.NewStore(s.Layout).Listen(ctx, token)
	if err != nil {
		return nil, err
	}

	for {
		h, err := line.Next(ctx)
		if err != nil {
			_ = line.Close()
			return nil, wire.Wrap("listen", err)
		}

		if h.Subscribed {
			return line, nil
		}
	}
}

// await polls the list of alive instances until ok returns true, for at most the given time.
func await(ctx context.Context, s Redis, during time.Duration, ok func([]fleet.Instance) bool) error {
	for until := time.Now().Add(during); ; {
		list, err := fleet.List(ctx, fleet.NewStore(s.Layout))
		if err != nil || ok(list) || time.Now().After(until) {
			return err
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// keepsNone reports whether an alive instance stores no notice after it was finalized.
func (s Redis) keepsNone(ctx context.Context) (bool, error) {
	list, err := fleet.List(ctx, fleet.NewStore(s.Layout))
	if isForbidden(err) {
		return false, nil
	}

	return slices.ContainsFunc(list, func(i fleet.Instance) bool {
		f, _ := i.ReadFigures()
		return f.KeepsNone && isRecent(i)
	}), err
}

// knowsPlaces returns a condition on heartbeats: the instance knows at least that many places.
func knowsPlaces(places int) func(fleet.Figures) bool {
	return func(f fleet.Figures) bool { return f.Places >= places }
}

// isRecent reports whether an instance's last heartbeat is less than a minute old. Older ones are stored until another
// instance removes them.
func isRecent(i fleet.Instance) bool { return i.Age < time.Minute }

// lacking names the instances, seen within the last minute, whose heartbeat does not satisfy ok.
func lacking(list []fleet.Instance, ok func(fleet.Figures) bool) []string {
	var out []string
	for _, i := range list {
		if f, _ := i.ReadFigures(); !ok(f) && isRecent(i) {
			out = append(out, fmt.Sprintf("%s (%s, %s)", i.Label, i.ID, i.Version))
		}
	}

	return out
}

// census is the fleet as the last poll of able found it.
type census struct {
	unable       []string // instances without the ability
	unidentified int64    // connections of no known instance
	lives        bool     // an instance has sent a heartbeat within the last minute
}

// able returns an error, usually one that wraps [ErrRefused], unless all instances are known to support an operation
// such as a reshard. ok reports whether a heartbeat shows the support, and what names the operation. lives is true if
// an instance has published a heartbeat within the last minute; if some is true, able waits up to tellWait for one.
func able(ctx context.Context, s Redis, what string, ok func(fleet.Figures) bool, some bool) (lives bool, err error) {
	var c census
	// Instances that have just started may still have to publish their first heartbeat.
	err = await(ctx, s, tellWait, func(list []fleet.Instance) bool {
		all := make([]string, len(list))
		for i := range list {
			all[i] = list[i].ID
		}

		var err error
		c.unable, c.lives = lacking(list, ok), slices.ContainsFunc(list, isRecent)
		c.unidentified, err = s.unidentified(ctx, all)
		return len(c.unable) == 0 && (err != nil || c.unidentified == 0) && (c.lives || !some)
	})
	if isForbidden(err) {
		// Without subscribers no instance is alive.
		n, err2 := s.unidentified(ctx, nil)
		if err2 != nil || n > 0 {
			return false, fmt.Errorf("%w: cannot read which instances are alive (%w); stop all instances of older versions, and use --force",
				ErrRefused, err)
		}

		c.unidentified, err = 0, nil
	}

	if err != nil {
		return c.lives, err
	}

	return c.lives, c.refusal(what, s.Space().Wake())
}

// refusal returns the error of able. channel is the channel of wake messages.
func (c *census) refusal(what, channel string) error {
	switch {
	case len(c.unable) > 0:
		return fmt.Errorf("%w: these instances are of a version without support for %s: %s; update them first, or use --force if "+
			"they have stopped", ErrRefused, what, strings.Join(c.unable, ", "))
	case c.unidentified > 0:
		return fmt.Errorf("%w: %d subscribers of %s are no known instances; they may be of a version without support for %s: stop them, "+
			"or use --force if they are not instances", ErrRefused, c.unidentified, channel, what)
	}
	return nil
}

func isForbidden(err error) bool {
	return errors.Is(err, wire.ErrRights) || errors.Is(err, fleet.ErrForeign) || redis.IsPermissionError(err)
}

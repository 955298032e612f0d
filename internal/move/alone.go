package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// How one mover keeps others away.
const (
	holdFor   = 15 * time.Second // that it is the only one
	renew     = 4 * time.Second
	pollEvery = 100 * time.Millisecond
)

var errHold = errors.New("the hold that keeps others away is lost; run it again")

// alone holds that this is the only reshard or migration of a Redis, until release is
// called. If that is lost, the context ends.
func alone(ctx context.Context, s *store.Store) (held context.Context, release func(), err error) {
	token := "reshard-" + rand.Text()
	held, cancel := context.WithCancelCause(ctx)
	var ended sync.WaitGroup
	line, err := listen(held, s, token)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	ended.Go(func() {
		for held.Err() == nil {
			if _, err := line.Next(held); err == nil {
				continue
			}
			select { // the client connects again
			case <-held.Done():
			case <-time.After(pollEvery):
			}
		}
	})
	end := func() {
		cancel(nil)
		_ = line.Close() // of no use any more
		ended.Wait()
	}
	ok, err := s.Resharding(ctx, token, holdFor)
	if err == nil && !ok {
		err = fmt.Errorf("%w: another reshard or migration is at work; if its connection was lost, its hold ends within %s", ErrRefused, holdFor)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	ended.Go(func() {
		until := time.Now().Add(holdFor)
		for {
			select {
			case <-held.Done():
				return
			case <-time.After(renew):
			}
			from := time.Now()
			switch ok, err := s.Resharding(held, token, holdFor); {
			case err == nil && ok:
				until = from.Add(holdFor)
			case err == nil || time.Now().After(until):
				cancel(errHold)
				return
			}
		}
	})
	return held, func() {
		end()
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = s.EndResharding(last, token) // else it ends by itself
	}, nil
}

// listen opens the line by which others see that this process lives.
func listen(ctx context.Context, s *store.Store, token string) (fleet.Line, error) {
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

// await polls who lives until ok, or for so long.
func await(ctx context.Context, s *store.Store, during time.Duration, ok func([]fleet.Instance) bool) error {
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

// knows are instances that know of so many places.
func knows(places int) func(fleet.Figures) bool {
	return func(f fleet.Figures) bool { return f.Places >= places }
}

// names are those of the instances that live and do not tell what they should.
func names(list []fleet.Instance, ok func(fleet.Figures) bool) []string {
	var out []string
	for _, i := range list {
		if f, _ := i.ReadFigures(); !ok(f) && time.Since(i.Seen) < time.Minute {
			out = append(out, fmt.Sprintf("%s (%s, %s)", i.Label, i.ID, i.Version))
		}
	}
	return out
}

// able refuses where an instance lives that does not tell what it should, or one that
// does not say at all that it lives, and tells whether any lives. Who has just begun may
// say so soon: that is waited for, and if some must live, for one that does.
func able(ctx context.Context, s *store.Store, what string, ok func(fleet.Figures) bool, some bool) (lives bool, err error) {
	var unable, all []string
	var strangers int64
	unseen := await(ctx, s, tellWait, func(list []fleet.Instance) bool {
		unable, all, lives = names(list, ok), nil, len(list) > 0
		for _, i := range list {
			all = append(all, i.ID)
		}
		var err error
		strangers, err = s.Strangers(ctx, all)
		return len(unable) == 0 && (err != nil || strangers == 0) && (lives || !some)
	})
	if isForbidden(unseen) {
		// Where nobody listens, nobody lives.
		var err error
		if strangers, err = s.Strangers(ctx, nil); err != nil || strangers > 0 {
			return false, fmt.Errorf("%w: who lives cannot be seen (%w); end all instances of a version before this one, and say --force",
				ErrRefused, unseen)
		}
		unseen = nil
	}
	switch {
	case unseen != nil:
		return lives, unseen
	case len(unable) > 0:
		return lives, fmt.Errorf("%w: these instances are of a version that knows nothing of %s: %s; update them first, or, if they have "+
			"ended, say --force",
			ErrRefused, what, strings.Join(unable, ", "))
	case strangers > 0:
		return lives, fmt.Errorf("%w: %d more listen to %s than say that they are instances: they may be of a version that knows nothing of "+
			"%s; end them, or, if they are no instances, say --force",
			ErrRefused, strangers, s.Space().Wake(), what)
	}
	return lives, nil
}

func isForbidden(err error) bool {
	return errors.Is(err, wire.ErrRights) || errors.Is(err, fleet.ErrForeign) || redis.IsPermissionError(err)
}

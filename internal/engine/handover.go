package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/callback"
	"notifier/internal/keys"
)

// A notice that this instance has claimed, and may not call for because the slots
// of its host, the route's rate or the next try of a host that fails is another
// instance's, is put off, and that instance is told of it. When it is due again
// it is hinted at there, and not here: everybody hears its timer, and whoever was
// first would claim it, mostly in vain. What comes of it is a hint and no more: a
// message may be lost, and then a sweep finds the notice after the grace.

// message is one for another instance, or for all if to is empty.
type message struct{ to, text string }

const (
	// mailRoom is how many messages wait to be sent; more are dropped.
	mailRoom = 256
	// sendTimeout is how long one may take.
	sendTimeout = time.Second
	// maxHandedOver is how many notices are waited for that were handed here, and how
	// many that were handed away.
	maxHandedOver = 4096
	// maxHandOverAfter is how far ahead: nothing is put off for longer.
	maxHandOverAfter = time.Minute
	wordNotice       = "notice"
)

// post sends a message, later and without any promise.
func (e *Engine) post(m message) {
	select {
	case e.mail <- m:
	default:
	}
}

func (e *Engine) deliverMessages(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-e.mail:
			sctx, cancel := context.WithTimeout(ctx, sendTimeout)
			if err := e.fleet.Tell(sctx, m.to, m.text); err != nil && ctx.Err() == nil {
				e.o.Logger.Debug("a message to other instances was not sent", zap.Error(err))
			}
			cancel()
		}
	}
}

// TellAll sends a message of the limits to all others.
func (e *Engine) TellAll(text string) { e.post(message{text: text}) }

// HandOver tells another instance of a notice that it can do what this one may not.
func (e *Engine) HandOver(h callback.Handed) {
	if h.To == e.Self() {
		return
	}
	e.away.add(h.Key, time.Now().Add(h.After+e.o.Grace))
	e.post(message{h.To, fmt.Sprintf("%s %d %s", wordNotice, h.After.Milliseconds(), h.Key)})
}

// heard takes what another instance tells.
func (e *Engine) heard(from, text string) {
	word, rest, _ := strings.Cut(text, " ")
	if word != wordNotice {
		if e.o.Messages != nil {
			e.o.Messages.Heard(from, text)
		}
		return
	}
	ms, key, _ := strings.Cut(rest, " ")
	after, err := strconv.ParseInt(ms, 10, 32)
	if err != nil || after < 0 || after > maxHandOverAfter.Milliseconds() || !keys.Valid(key) {
		return
	}
	r := e.o.Routes.Match(key)
	if r == nil || e.coming.Add(1) > maxHandedOver {
		e.coming.Add(-1)
		return
	}
	time.AfterFunc(time.Duration(after)*time.Millisecond, func() {
		e.coming.Add(-1)
		e.dispatch.Hint(r, key)
	})
}

// away holds the notices that were handed away, until they are anybody's again.
type away struct {
	n    atomic.Int64 // so that who looks when there are none takes no lock
	mu   sync.Mutex
	keys map[string]time.Time
}

func (a *away) add(key string, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys = map[string]time.Time{}
	}
	if len(a.keys) >= maxHandedOver {
		now := time.Now()
		for k, t := range a.keys {
			if t.Before(now) {
				delete(a.keys, k)
			}
		}
		if len(a.keys) >= maxHandedOver {
			return
		}
	}
	a.keys[key] = until
	a.n.Store(int64(len(a.keys)))
}

func (a *away) has(key string) bool {
	if a.n.Load() == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.keys[key]
	if ok && time.Now().After(until) {
		delete(a.keys, key)
		a.n.Store(int64(len(a.keys)))
		ok = false
	}
	return ok
}

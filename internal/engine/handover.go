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

// Handing a notice over: this instance has claimed a notice but may not deliver it, because the
// slots of its host, the route's rate or the next probe of a failing host belong to another
// instance. The notice is postponed and the other instance gets a message, which is a hint for the
// due time. This instance ignores the timer's expired event: all instances receive it, and the
// first one would claim the notice, mostly in vain. The message may be lost; then a sweep finds the
// notice after the grace.

// message is a message for another instance, or for all others if to is empty.
type message struct{ to, text string }

const (
	// mailRoom is the maximum number of messages that wait to be sent; more are dropped.
	mailRoom = 256
	// sendTimeout is the timeout of sending one message.
	sendTimeout = time.Second
	// maxHandedOver is the maximum number of notices handed to this instance, and of those handed
	// to others.
	maxHandedOver = 4096
	// maxHandOverAfter is the longest accepted delay: nothing is postponed for longer.
	maxHandOverAfter = time.Minute
	wordNotice       = "notice"
)

// post queues a message, without any guarantee.
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
			if err := e.fleet.Send(sctx, m.to, m.text); err != nil && ctx.Err() == nil {
				e.o.Logger.Debug("cannot send a message to other instances", zap.Error(err))
			}

			cancel()
		}
	}
}

// Broadcast sends a message about limits to all other instances.
func (e *Engine) Broadcast(text string) { e.post(message{text: text}) }

// HandOver sends a notice that this instance may not deliver to one that can.
func (e *Engine) HandOver(h callback.Handover) {
	if h.To == e.Self() {
		return
	}

	e.away.add(h.Key, time.Now().Add(h.After+e.o.Grace))
	e.post(message{h.To, fmt.Sprintf("%s %d %s", wordNotice, h.After.Milliseconds(), h.Key)})
}

// received processes a message of another instance.
func (e *Engine) received(from, text string) {
	word, rest, _ := strings.Cut(text, " ")
	if word != wordNotice {
		if e.o.Messages != nil {
			e.o.Messages.Receive(from, text)
		}
		return
	}

	ms, key, _ := strings.Cut(rest, " ")
	after, err := strconv.ParseInt(ms, 10, 32)
	if err != nil || after < 0 || after > maxHandOverAfter.Milliseconds() || !keys.Valid(key) {
		return
	}

	r := e.o.Routes.Match(key)
	if r == nil {
		return
	}

	if e.coming.Add(1) > maxHandedOver {
		e.coming.Add(-1)
		return
	}

	time.AfterFunc(time.Duration(after)*time.Millisecond, func() {
		e.coming.Add(-1)
		e.dispatch.Hint(r, key)
	})
}

// away holds the notices that were handed over, until any instance may claim them.
type away struct {
	n    atomic.Int64 // so that an empty set needs no lock
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

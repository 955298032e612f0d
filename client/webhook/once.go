package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// State is the progress of a callback, as a [Store] reports it.
type State int

// The states of a callback.
const (
	// StateNew: it has not been processed, and the caller of Begin has to process it.
	StateNew State = iota
	// StateRunning: another handler is processing it.
	StateRunning
	// StateDone: it has been processed.
	StateDone
)

// Store remembers which callbacks were processed. [Memory] and [SQL] are stores. Its methods may be called concurrently.
type Store interface {
	// Begin returns the state of the callback with that key. Of concurrent calls with one key at most one gets StateNew; its caller
	// calls Done or Forget with the returned context, which is also the handler's.
	Begin(ctx context.Context, key string) (context.Context, State, error)
	// Done marks the callback as processed. After an error the callback is sent again.
	Done(ctx context.Context, key string) error
	// Forget makes the callback new again.
	Forget(ctx context.Context, key string) error
}

// ErrRunning says that another handler is processing the same callback. Answer 409, so that the callback is sent again. A success would
// end the notice although that handler may fail.
var ErrRunning = errors.New("webhook: the same callback is being processed")

// markTimeout limits Done and Forget. The end of the request does not end them.
const markTimeout = 5 * time.Second

// Processor runs a handler once for each callback, however often it arrives.
type Processor struct{ store Store }

// Once returns a Processor that remembers callbacks in the store. Use it after the verification of the signature.
func Once(store Store) *Processor { return &Processor{store} }

// Key returns the key under which a callback is remembered: its webhook-id and, if an operator has resent the notice, the number of the
// resend, since a resend is to be processed again. r is the result of [Verifier.Check]; its ID, which is signed, goes before the header's.
// Schemes that do not sign the webhook-id need a key from the body.
func Key(h http.Header, r Result) (string, error) {
	id, err := r.ID, error(nil)
	if id == "" {
		if id, err = one(h, "Webhook-Id"); err != nil {
			return "", err
		}
	}

	if len(h.Values("Notifier-Resend")) == 0 {
		return id, nil
	}

	text, err := one(h, "Notifier-Resend")
	if err != nil {
		return "", err
	}

	resend, err := strconv.ParseUint(text, 10, 31)
	if err != nil || resend == 0 {
		return "", fmt.Errorf("%w: notifier-resend is not a number from 1", ErrHeader)
	}

	return id + "#" + strconv.FormatUint(resend, 10), nil
}

// Do calls handle unless the callback with that key is done or running. It returns nil if the callback has been processed, now or before,
// [ErrRunning], or an error of handle or of the store. After an error of handle, and if handle panics, the store forgets the callback.
func (p *Processor) Do(ctx context.Context, key string, handle func(context.Context) error) error {
	held, state, err := p.store.Begin(ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("webhook: begin: %w", err)
	case state == StateRunning:
		return ErrRunning
	case state == StateDone:
		return nil
	}

	returned := false
	defer func() {
		if !returned { // handle has panicked
			_ = p.mark(held, key, p.store.Forget)
		}
	}()

	err = handle(held)
	returned = true
	if err != nil {
		return errors.Join(err, p.mark(held, key, p.store.Forget))
	}

	return p.mark(held, key, p.store.Done)
}

// mark calls Done or Forget.
func (p *Processor) mark(ctx context.Context, key string, by func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()

	if err := by(ctx, key); err != nil {
		return fmt.Errorf("webhook: mark the callback: %w", err)
	}

	return nil
}

// Status returns the status to answer with: 200 for nil, 409 for [ErrRunning], 413 for too large a body, 401 for a callback that was not
// verified, and 500 for any other error.
func Status(err error) int {
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, ErrRunning):
		return http.StatusConflict
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	}

	for _, refused := range []error{ErrHeader, ErrTimestamp, ErrSignature, ErrHost, ErrBody} {
		if errors.Is(err, refused) {
			return http.StatusUnauthorized
		}
	}

	return http.StatusInternalServerError
}

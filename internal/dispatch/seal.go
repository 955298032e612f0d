package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/vault"
)

// sealedFor is the postponement of a notice that this instance cannot open.
const sealedFor = time.Second

// handleOpened runs the handler with the notice opened, if it is sealed and the route does not keep it so.
// sealed is then the answer, which the result does not have.
func (a *attempts) handleOpened(ctx context.Context, c *store.Claim) (r notice.Result, sealed string) {
	if c.Sealed == "" {
		return a.handle(ctx, c.Notice), ""
	}

	if a.r.KeepsSealed() {
		if err := a.d.o.Vault.CheckForgotten(ctx, c.Shard, c.Sealed); err != nil {
			return notice.DeadResult(notice.ReasonForgotten, err.Error()), ""
		}

		return a.handle(ctx, c.Notice), ""
	}

	n := *c.Notice
	content, seals, err := a.d.o.Vault.OpenFor(ctx, c.Shard, c.Notice)
	switch {
	case !vault.ForgottenAt(err).IsZero():
		return notice.DeadResult(notice.ReasonForgotten, err.Error()), ""
	case errors.Is(err, vault.ErrSealed):
		a.keys.avoid(err)
		return notice.DeferredResult(notice.ReasonSealed, sealedFor, err.Error()), ""
	case errors.Is(err, seal.ErrForeign), errors.Is(err, seal.ErrFormat):
		return notice.DeadResult(notice.ReasonUnreadable, "the sealed content does not open; it is kept, and a redrive tries again"), ""
	case err != nil:
		return notice.DeferredResult(notice.ReasonSealed, sealedFor, err.Error()), ""
	}

	n.Content, n.Sealed = content, c.Sealed // Sealed says so to handlers
	if r = a.handle(ctx, &n); r.Response == "" {
		return r, ""
	}

	if sealed, err = seals(notice.Kept(r.Response)); err != nil {
		unsealed(a.d.o.Logger, c.Key, err)
	}

	r.Response = ""
	return r, sealed
}

// panicked is the log field of a handler's panic, whose value may have content of the notice.
func panicked(n *notice.Notice, value any) zap.Field {
	if n.Sealed != "" {
		return zap.String("panic", fmt.Sprintf("%T, not shown: the notice is sealed", value))
	}
	return zap.Any("panic", value)
}

// unsealed logs that the answer to an attempt is not kept.
func unsealed(logger *zap.Logger, key string, err error) {
	logger.Warn("cannot seal an answer, it is not kept", zap.String("key", key), zap.Error(err))
}

// sealResponse returns the response of a report on a sealed notice as a sealed text, and takes it out of the report. A response that
// cannot be sealed is not kept.
func (p *Reports) sealResponse(ctx context.Context, f store.Found, v *notice.Report) (sealed string) {
	if f.Sealed == "" || v.Response == "" {
		return ""
	}

	err := vault.ErrSealed
	if p.Vault != nil {
		sealed, err = p.Vault.SealAnswer(ctx, f.Shard, f.Notice, notice.Kept(v.Response))
	}

	if v.Response = ""; err != nil {
		unsealed(p.Logger, f.Key, err)
		return ""
	}

	return sealed
}

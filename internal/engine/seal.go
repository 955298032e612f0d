package engine

import (
	"cmp"
	"context"
	"slices"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/vault"
)

func (e *Engine) newVault() *vault.Vault {
	e.sealed.again = make(chan struct{}, 1)
	e.sealed.routes = slices.ContainsFunc(e.o.Routes.All(), func(r *route.Route) bool { return r.Seal != "" })
	v := vault.New(e.o.SealKeys, e.store.Wire())
	v.KeyAge = cmp.Or(e.o.KeyAge, vault.KeyAge)
	v.SealURLs(e.o.Routes.SealsURL)
	v.Follow(e.peersSealKeys, e.o.Logger)
	if d := e.o.History.DB; d != nil {
		d.KeepKeys(v.Keys)
		v.Consult(d)
	}

	return v
}

// Open opens a sealed notice for a caller who may read it. A notice that this instance cannot open stays sealed,
// and if its subject was forgotten, f says so.
func (e *Engine) Open(ctx context.Context, f *store.Found) {
	if sealedText(f) == "" {
		return
	}

	n, shard := *f.Notice, e.store.Space().Shard(f.Key)
	var err error
	if n.Sealed != "" { // else the history has only the answers
		n.Content, err = e.vault.Open(ctx, shard, f.Key, &f.Content)
	}

	if err == nil {
		n.Attempts, err = e.vault.OpenAnswers(ctx, shard, f.Notice)
	}

	if f.Forgotten = vault.ForgottenAt(err); !f.Forgotten.IsZero() {
		return
	}

	if err != nil {
		e.o.Logger.Warn("cannot open a sealed notice, showing it sealed", zap.String("key", f.Key), zap.Error(err))
		return
	}

	f.Notice = &n
}

// FindForgotten sets when the subject of a sealed notice was forgotten, for a caller who may not read the content.
func (e *Engine) FindForgotten(ctx context.Context, f *store.Found) {
	if text := sealedText(f); text != "" {
		f.Forgotten = vault.ForgottenAt(e.vault.CheckForgotten(ctx, e.store.Space().Shard(f.Key), text))
	}
}

// sealedText returns the sealed content of a notice, or else a sealed answer; "" = there is neither, or no notice.
func sealedText(f *store.Found) string {
	if f.Notice == nil {
		return ""
	}
	if f.Sealed != "" {
		return f.Sealed
	}

	for i := range f.Attempts {
		if text := f.Attempts[i].Sealed; text != "" {
			return text
		}
	}

	return ""
}

// OpenText opens the sealed text of a notice's content, such as that of an entry. The notice may have ended; see vault.OpenText.
func (e *Engine) OpenText(ctx context.Context, key, sealed string) (notice.Content, error) {
	if err := e.known(ctx); err != nil {
		return notice.Content{}, err
	}

	ctx, cancel := e.bounded(ctx)
	defer cancel()
	return e.vault.OpenText(ctx, e.store.Space().Shard(key), key, sealed)
}

func (e *Engine) keyring() jobs.Keyring {
	return jobs.Keyring{Vault: e.vault, DB: e.o.History.DB, Routes: e.o.Routes}
}

// withAddress returns a notice with another address.
func (e *Engine) withAddress(ctx context.Context, to *route.Route, f *store.Found, a notice.Address) (*notice.Notice, error) {
	if f.Sealed == "" {
		n := f.Notice.Readdress(a)
		return n, to.CheckAddress(&n.Content)
	}

	opened, err := e.vault.Open(ctx, f.Shard, f.Key, &f.Content)
	if err != nil {
		return nil, err
	}

	of, err := to.SealSubject(f.Audience, f.Key)
	if err != nil {
		of = seal.RouteSubject(to.Prefix)
	}

	return f.Notice.ReaddressSealed(a, opened, func(c *notice.Content) error {
		if err := to.CheckAddress(c); err != nil {
			return err
		}
		return e.vault.Seal(ctx, f.Shard, of, f.Key, c)
	})
}

// peersSealKeys returns the service keys of each other living instance that has any.
func (e *Engine) peersSealKeys(ctx context.Context) (lists [][]string, err error) {
	if v := e.fleet.View(); v.Known() {
		return v.SealKeys(), nil
	}

	return fleet.SealKeys(ctx, e.heartbeats()) // the first notice may come before the first heartbeat
}

// sealedLetter returns a notice that is to be restored, sealed if its route seals.
func (e *Engine) sealedLetter(ctx context.Context, to *route.Route, shard int, l store.Letter) (store.Letter, error) {
	if to.Seal == "" || l.Sealed != "" {
		return l, nil
	}

	of, err := to.SealSubject(l.Audience, l.Key)
	if err != nil {
		return l, err
	}

	l.Notice = l.Notice.ToSeal()
	return l, e.vault.SealNotice(ctx, shard, of, l.Notice)
}

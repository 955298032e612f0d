package api

import (
	"fmt"
	"net/http"
	"time"

	"notifier/internal/auth"
	"notifier/internal/route"
	"notifier/internal/sign"
)

// KeySetPath is where receivers find the public keys.
const KeySetPath = "/.well-known/jwks.json"

const keySetType = "application/jwk-set+json"

// KeySet answers GET KeySetPath with the public keys of all routes, without a token. Each
// address may make 5 calls a second.
type KeySet struct {
	body  []byte
	limit *auth.Anonymous
}

// NewKeySet makes a KeySet.
func NewKeySet(routes *route.Table) *KeySet {
	var keys []*sign.Key
	for _, r := range routes.All() {
		keys = append(keys, r.SignKeys...)
	}

	return &KeySet{body: sign.Set(keys), limit: auth.NewAnonymous()}
}

// ServeHTTP implements http.Handler.
func (k *KeySet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := k.answer(w, r); err != nil {
		err.write(w)
	}
}

func (k *KeySet) answer(w http.ResponseWriter, r *http.Request) *Problem {
	if !k.limit.Admit(auth.OriginOf(r).Address, time.Now()) {
		return problem(http.StatusTooManyRequests,
			"this address makes too many calls without a token; repeat the call in 1 s").with("Retry-After", "1")
	}

	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(sign.MaxAge.Seconds())))
	_ = writeRaw(w, http.StatusOK, keySetType, k.body) // it returns nil
	return nil
}

// keySet serves GET /.well-known/jwks.json.
func (a *api) keySet(w http.ResponseWriter, r *http.Request, _ site) error {
	if p := a.keySets.answer(w, r); p != nil {
		return p
	}
	return nil
}

package verifiers

import (
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/validators"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/verifiers"
)

// maxAge replaces the five minutes that receivers cache the key set, at a scale of 1:100.
const maxAge = 3 * time.Second

// receivers verify with the key set of one instance or another, which they keep for as long as
// they may, whether or not it has the key.
type receivers struct {
	mu        sync.Mutex
	instances []string
	caches    map[string]*cache
	failed    map[string]int // by route
	firstErr  error
	keys      map[string]map[string]bool // route → ids of the keys that signed
}

type cache struct {
	set     *jose.JSONWebKeySet
	fetched time.Time
}

// keysOf returns a receiver's keys. Each receiver fetches from another instance.
func (r *receivers) keysOf(name string) (*jose.JSONWebKeySet, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.caches[name]
	if c != nil && time.Since(c.fetched) < maxAge {
		return c.set, nil
	}
	var err error
	for i := range r.instances { // one that restarts is left out, as by a load balancer
		at := r.instances[(len(name)+i)%len(r.instances)]
		if at == "" {
			continue
		}
		var set *jose.JSONWebKeySet
		if set, err = fetch(at); err == nil {
			r.caches[name] = &cache{set, time.Now()}
			return set, nil
		}
	}
	return nil, fmt.Errorf("no instance answers: %w", err)
}

func (r *receivers) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	name := req.URL.Path[1:]
	body, err := io.ReadAll(req.Body)
	var id string
	if err == nil {
		var set *jose.JSONWebKeySet
		if set, err = r.keysOf(name); err == nil {
			id, err = fits(name, req, body, set)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed[name]++
		if r.firstErr == nil {
			r.firstErr = fmt.Errorf("%s: %w", name, err)
		}
		return
	}
	if r.keys[name] == nil {
		r.keys[name] = map[string]bool{}
	}
	r.keys[name][id] = true
}

// fits verifies a callback of the route and returns the id of its key.
func fits(name string, r *http.Request, body []byte, set *jose.JSONWebKeySet) (id string, err error) {
	switch name {
	case "jws":
		object, err := jose.ParseDetached(r.Header.Get("Webhook-Jws"), body, []jose.SignatureAlgorithm{jose.EdDSA})
		if err != nil {
			return "", err
		}
		return object.Signatures[0].Protected.KeyID, jwsFits(r, body, set)
	case "wechatpay":
		id = r.Header.Get("Wechatpay-Serial")
		keys := set.Key(id)
		if len(keys) != 1 {
			return "", fmt.Errorf("%d keys have the id %s", len(keys), id)
		}
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(strings.NewReader(string(body)))
		v := verifiers.NewSHA256WithRSAPubkeyVerifier(id, *keys[0].Key.(*rsa.PublicKey))
		return id, validators.NewWechatPayNotifyValidator(v).Validate(r.Context(), again)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Webhook-Signature"), "v1a,"))
	if err != nil {
		return "", err
	}
	text := []byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body))
	for _, k := range set.Keys {
		if public, ok := k.Key.(ed25519.PublicKey); ok && ed25519.Verify(public, text, signature) {
			return k.KeyID, nil
		}
	}
	return "", fmt.Errorf("none of %d keys fits", len(set.Keys))
}

// rotation is two instances whose keys are changed while they call.
type rotation struct {
	t         *testing.T
	redis     string
	receivers *receivers
	address   string
	services  [2]*service
}

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{t: t, redis: redisServer(t), receivers: &receivers{instances: make([]string, 2), caches: map[string]*cache{},
		failed: map[string]int{}, keys: map[string]map[string]bool{}}}
	s := httptest.NewServer(r.receivers)
	t.Cleanup(s.Close)
	r.address = s.URL
	return r
}

// key is a private key, with its id if it is RSA.
type key struct{ private, id string }

// restart gives the instances other keys, one after the other.
func (r *rotation) restart(routes map[string][]key) {
	r.t.Helper()
	env := map[string]string{"ROUTES": "jws,wechatpay,ed"}
	for name, keys := range routes {
		begin := "ROUTE_" + strings.ToUpper(name) + "_"
		var ids []string
		for _, k := range keys {
			env[begin+"SIGN_KEY"] += k.private
			if k.id != "" {
				ids = append(ids, k.id)
			}
		}
		env[begin+"PREFIX"], env[begin+"TARGET"], env[begin+"SIGN_KEY_ID"] = "app:"+name, r.address+"/"+name, strings.Join(ids, ",")
		env[begin+"SIGN"] = name
		if name == "ed" {
			env[begin+"SIGN"] = "standard-ed25519"
		}
	}
	for i := range r.services {
		r.at(i, "")
		if r.services[i] != nil {
			r.services[i].stop()
		}
		r.services[i] = serve(r.t, r.redis, maps.Clone(env))
		r.at(i, r.services[i].url)
	}
}

func (r *rotation) at(i int, url string) {
	r.receivers.mu.Lock()
	defer r.receivers.mu.Unlock()
	r.receivers.instances[i] = url
}

// load schedules notices of all routes, 60 a second, until the function that it returns is
// called. That returns how many there were.
func (r *rotation) load() (end func() int) {
	stop, done, n := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(done)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
			for _, name := range []string{"jws", "wechatpay", "ed"} {
				for i := range r.services { // one of the two is always there
					r.receivers.mu.Lock()
					at := r.receivers.instances[i]
					r.receivers.mu.Unlock()
					if at != "" && (&service{url: at}).schedule(fmt.Sprintf("app:%s:paid:%d", name, n), "application/json", body) == nil {
						n++
						break
					}
				}
			}
		}
	}()
	return func() int {
		close(stop)
		<-done
		return n
	}
}

func wait(d time.Duration) { time.Sleep(d) } // sleep: the caches expire

func keysOf(t *testing.T) (from, to map[string][]key) {
	t.Helper()
	from, to = map[string][]key{}, map[string][]key{}
	for _, m := range []map[string][]key{from, to} {
		m["jws"], m["ed"] = []key{{newEd25519(t).private, ""}}, []key{{newEd25519(t).private, ""}}
	}
	from["wechatpay"], to["wechatpay"] = []key{{newRSA(t).private, "OLD"}}, []key{{newRSA(t).private, "NEW"}}
	return from, to
}

// joined is the keys of both, those of a first.
func joined(a, b map[string][]key) map[string][]key {
	out := map[string][]key{}
	for name := range a {
		out[name] = append(append([]key{}, a[name]...), b[name]...)
	}
	return out
}

// Under load, keys are changed as docs/callbacks.md says: append, wait twice the max-age, swap,
// drop. Every callback is one that a receiver with its cached key set verifies.
func TestRotationLeavesNoCallbackUnverified(t *testing.T) {
	from, to := keysOf(t)
	r := newRotation(t)
	r.restart(from)
	end := r.load()
	wait(maxAge)
	r.restart(joined(from, to))
	wait(2 * maxAge)
	r.restart(joined(to, from))
	wait(maxAge)
	r.restart(to)
	wait(maxAge)
	n := end()

	r.receivers.mu.Lock()
	defer r.receivers.mu.Unlock()
	t.Logf("%d notices, refused %v, keys %v", n, r.receivers.failed, r.receivers.keys)
	if len(r.receivers.failed) > 0 {
		t.Errorf("receivers could not verify %v callbacks, the first: %v", r.receivers.failed, r.receivers.firstErr)
	}
	for _, name := range []string{"jws", "wechatpay", "ed"} {
		if len(r.receivers.keys[name]) != 2 {
			t.Errorf("%s: callbacks were signed by %v, want both keys", name, r.receivers.keys[name])
		}
	}
}

// Without the wait, receivers with a cached key set refuse callbacks, and this test would notice.
func TestKeySwapWithoutWaitingIsNoticed(t *testing.T) {
	from, to := keysOf(t)
	r := newRotation(t)
	r.restart(from)
	end := r.load()
	wait(maxAge + maxAge/2) // halfway through the life of the second cached set
	r.restart(joined(to, from))
	wait(maxAge)
	end()
	r.receivers.mu.Lock()
	defer r.receivers.mu.Unlock()
	if len(r.receivers.failed) != 3 {
		t.Errorf("refused: %v; want callbacks of each route", r.receivers.failed)
	}
}

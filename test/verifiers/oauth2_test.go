package verifiers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/storage"
)

// issuer is a token endpoint made of ory/fosite, with faults before it.
type issuer struct {
	url      string
	provider fosite.OAuth2Provider
	calls    atomic.Int32
	together atomic.Int32 // calls in progress, and the most there were
	most     atomic.Int32
	down     atomic.Bool
	slow     atomic.Int64 // a duration
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	conf := &fosite.Config{GlobalSecret: []byte("a secret of exactly 32 bytes, ok"), AccessTokenLifespan: time.Hour}
	i := &issuer{provider: compose.Compose(conf, storage.NewExampleStore(), compose.NewOAuth2HMACStrategy(conf),
		compose.OAuth2ClientCredentialsGrantFactory, compose.OAuth2TokenIntrospectionFactory)}
	s := httptest.NewServer(i)
	t.Cleanup(s.Close)
	i.url = s.URL
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.calls.Add(1)
	if n := i.together.Add(1); n > i.most.Load() {
		i.most.Store(n)
	}
	defer i.together.Add(-1)
	time.Sleep(time.Duration(i.slow.Load())) // sleep: the issuer is slow
	if i.down.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	request, err := i.provider.NewAccessRequest(r.Context(), r, new(fosite.DefaultSession))
	if err != nil {
		i.provider.WriteAccessError(r.Context(), w, request, err)
		return
	}
	for _, scope := range request.GetRequestedScopes() {
		request.GrantScope(scope)
	}
	response, err := i.provider.NewAccessResponse(r.Context(), request)
	if err != nil {
		i.provider.WriteAccessError(r.Context(), w, request, err)
		return
	}
	i.provider.WriteAccessResponse(r.Context(), w, request, response)
}

// valid asks the library whether it made the token.
func (i *issuer) valid(r *http.Request) bool {
	_, _, err := i.provider.IntrospectToken(r.Context(), fosite.AccessTokenFromRequest(r), fosite.AccessToken, new(fosite.DefaultSession),
		"fosite")
	return err == nil
}

// delivered waits until that many callbacks were acknowledged.
func delivered(t *testing.T, got *atomic.Int32, want int32) {
	t.Helper()
	until(t, fmt.Sprintf("%d callbacks were acknowledged", want), func() bool { return got.Load() >= want })
}

// attempts is how many attempts a notice has used.
func (s *service) attempts(t *testing.T, key string) (n int, text string) {
	t.Helper()
	resp, err := http.Get(s.url + "/v1/notices/" + key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var v struct {
		Made     int `json:"attempts_made"`
		Attempts []struct{ Response string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		t.Fatal(err)
	}
	for _, a := range v.Attempts {
		text += a.Response + "\n"
	}
	return v.Made, text
}

func oauth2Env(issuer, receiver string, more map[string]string) map[string]string {
	env := map[string]string{"ROUTES": "pay", "ROUTE_PAY_PREFIX": "app", "ROUTE_PAY_TARGET": receiver, "ROUTE_PAY_RETRY": "1s,1s,1s",
		"ROUTE_PAY_TIMEOUT": "5s", "ROUTE_PAY_OAUTH2_TOKEN_URL": issuer, "ROUTE_PAY_OAUTH2_CLIENT_ID": "my-client",
		"ROUTE_PAY_OAUTH2_CLIENT_SECRET": "foobar", "ROUTE_PAY_OAUTH2_SCOPES": "fosite"}
	for name, value := range more {
		env[name] = value
	}
	return env
}

// An issuer of a library of others gives tokens that it knows again. While it is down or slow,
// notices wait and use no attempt; many calls cause one fetch.
func TestIssuerOutageAndSlowness(t *testing.T) {
	i := newIssuer(t)
	var good, bad atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !i.valid(r) {
			bad.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		good.Add(1)
	}))
	t.Cleanup(receiver.Close)
	i.down.Store(true)
	s := serve(t, redisServer(t), oauth2Env(i.url, receiver.URL, nil))
	schedule := func(from, to int) {
		for n := from; n < to; n++ {
			if err := s.schedule(fmt.Sprintf("app:a:b:%d", n), "application/json", body); err != nil {
				t.Fatal(err)
			}
		}
	}

	schedule(0, 50)
	until(t, "the issuer has refused some fetches", func() bool { return i.calls.Load() >= 3 })
	i.slow.Store(int64(time.Second))
	i.down.Store(false)
	delivered(t, &good, 50)
	i.slow.Store(0)
	before := i.calls.Load()
	schedule(50, 150)
	delivered(t, &good, 150)

	t.Logf("%d fetches, at most %d at a time; %d calls without a valid token", i.calls.Load(), i.most.Load(), bad.Load())
	if bad.Load() != 0 || i.most.Load() != 1 || i.calls.Load() != before {
		t.Error("calls without a valid token, or more fetches than are needed")
	}
	for n := range 150 {
		if made, text := s.attempts(t, fmt.Sprintf("app:a:b:%d", n)); made != 1 {
			t.Errorf("notice %d used %d attempts: %s", n, made, text)
		}
	}
}

// A receiver that refuses every token of the issuer gets each attempt's call once or twice, and
// the issuer is not asked for a token each time.
func TestStormOf401FetchesFewTokens(t *testing.T) {
	i := newIssuer(t)
	var calls atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(receiver.Close)
	s := serve(t, redisServer(t), oauth2Env(i.url, receiver.URL, nil))
	for n := range 100 {
		if err := s.schedule(fmt.Sprintf("app:a:b:%d", n), "application/json", body); err != nil {
			t.Fatal(err)
		}
	}
	delivered(t, &calls, 400)
	t.Logf("%d calls for 100 notices of 4 attempts, %d fetches", calls.Load(), i.calls.Load())
	if calls.Load() > 500 || i.calls.Load() > 2 {
		t.Errorf("%d calls, %d fetches", calls.Load(), i.calls.Load())
	}
}

// A secret that the issuer refuses uses attempts, with the reason token, and is not shown.
func TestRefusalOfIssuerIsShown(t *testing.T) {
	i := newIssuer(t)
	s := serve(t, redisServer(t), oauth2Env(i.url, "http://127.0.0.1:1", map[string]string{
		"ROUTE_PAY_OAUTH2_CLIENT_SECRET": "hunter2hunter2", "ROUTE_PAY_RETRY": "none"}))
	if err := s.schedule("app:a:b:1", "application/json", body); err != nil {
		t.Fatal(err)
	}
	until(t, "the attempt has ended, and shows the reason but not the secret", func() bool {
		made, text := s.attempts(t, "app:a:b:1")
		return made == 1 && strings.Contains(text, "answered 401 invalid_client") && !strings.Contains(text, "hunter2")
	})
}

package webhook_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"notifier/client/webhook"
)

const setURL = "https://notifier.example/.well-known/jwks.json"

// sender answers requests for the key set with a status, a body and its Cache-Control.
type sender struct {
	fetches int
	status  int
	body    io.Reader
	age     string
	answers func(ctx context.Context) error // nil = at once
}

func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) {
	s.fetches++
	if s.answers != nil {
		if err := s.answers(r.Context()); err != nil {
			return nil, err
		}
	}
	if s.body == nil {
		s.body = strings.NewReader(jwks("k1"))
	}
	body := io.NopCloser(s.body)
	s.body = nil
	return &http.Response{StatusCode: max(s.status, 200), Header: http.Header{"Cache-Control": {s.age}}, Body: body, Request: r}, nil
}

func unpadded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func jwks(id string) string {
	return fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":%q,"use":"sig","x":%q}]}`, id, unpadded(edKey[32:]))
}

// receiver returns a function that checks a callback signed with the key of an id.
func receiver(s *sender) func(ctx context.Context, id string) error {
	o, _, body := callback(webhook.JWS)
	o.KeySet = must(webhook.NewKeySet(setURL, &http.Client{Transport: s}))
	v := must(webhook.NewVerifier(o))
	return func(ctx context.Context, id string) error {
		signed := jws(strings.Replace(head, `"b64"`, fmt.Sprintf(`"kid":%q,"b64"`, id), 1), body, eddsa)
		_, err := v.Check(ctx, http.Header{"Webhook-Jws": {signed}}, []byte(body))
		return err
	}
}

// Over http, an attacker could replace the keys. Only a loopback host is safe.
func TestNewKeySetRefusesUnsafeURLs(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{setURL: true, "http://localhost:8080/x": true, "http://127.0.0.1/x": true, "http://[::1]/x": true,
		"http://notifier.example/x": false, "http://localhost.example/x": false, "notifier.example/x": false, "https://": false,
		"ftp://127.0.0.1/x": false, "https://notifier.example\n": false, "": false} {
		if _, err := webhook.NewKeySet(address, nil); (err == nil) != ok || err != nil && !errors.Is(err, webhook.ErrSecret) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestKeySetRefusesInvalidAnswers(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection reset")
	none := errors.New("no route to host")
	for want, s := range map[string]*sender{
		"status 503":           {status: 503},
		"not a JSON Web Key":   {body: strings.NewReader("<html>")},
		"no usable key":        {body: strings.NewReader(`{"keys":[]}`)},
		"connection reset":     {body: io.MultiReader(strings.NewReader(jwks("k1")[:20]), iotest.ErrReader(cut))},
		"no route to host":     {answers: func(context.Context) error { return none }},
		"unexpected end of":    {body: strings.NewReader(`{"keys":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`)},
		"with the id \"k1\"":   {body: strings.NewReader(jwks("k2"))},
		"no usable key in the": {body: strings.NewReader(strings.Replace(jwks("k1"), `"sig"`, `"enc"`, 1))},
	} {
		if err := receiver(s)(t.Context(), "k1"); !errors.Is(err, webhook.ErrKey) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The sender may add keys of kinds that an older receiver does not know.
func TestKeySetSkipsUnusableKeys(t *testing.T) {
	t.Parallel()
	modulus, e := unpadded(rsaKey().N.Bytes()), "AQAB"
	small := unpadded(must(rsa.GenerateKey(rand.Reader, 1024)).N.Bytes())
	point := must(ecKey().PublicKey.Bytes())
	x, y := unpadded(point[1:33]), unpadded(point[33:])
	rsaSet := func(n, e string) string { return fmt.Sprintf(`{"kty":"RSA","kid":"k1","n":%q,"e":%q}`, n, e) }
	for name, key := range map[string]string{
		"an unknown kind":       `{"kty":"AKP","kid":"k1"}`,
		"an unknown curve":      `{"kty":"EC","crv":"P-384","kid":"k1"}`,
		"RSA of 1024 bits":      rsaSet(small, e),
		"the exponent 1":        rsaSet(modulus, "AQ"),
		"an exponent above int": rsaSet(modulus, unpadded(big.NewInt(1<<31).Bytes())),
		"not base64":            rsaSet("!", e),
		"a short Ed25519 key":   `{"kty":"OKP","crv":"Ed25519","kid":"k1","x":"AAAA"}`,
		"a point off the curve": fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"k1","x":%q,"y":%q}`, x, x),
		"a cut point":           fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"k1","x":%q,"y":%q}`, x[:40], y),
	} {
		if err := receiver(&sender{body: strings.NewReader(`{"keys":[` + key + `]}`)})(t.Context(), "k1"); !errors.Is(err, webhook.ErrKey) ||
			!strings.Contains(err.Error(), "no usable key") {
			t.Errorf("%s: %v", name, err)
		}
		both := strings.Replace(jwks("k1"), "[", "["+key+",", 1)
		if err := receiver(&sender{body: strings.NewReader(both)})(t.Context(), "k1"); err != nil {
			t.Errorf("%s before a usable key: %v", name, err)
		}
	}
}

func TestKeySetVerifiesP256(t *testing.T) {
	t.Parallel()
	point := must(ecKey().PublicKey.Bytes())
	key := fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"k1","x":%q,"y":%q}`, unpadded(point[1:33]), unpadded(point[33:]))
	s := &sender{body: strings.NewReader(`{"keys":[` + key + `]}`)}
	o, _, body := callback(webhook.JWS)
	o.KeySet = must(webhook.NewKeySet(setURL, &http.Client{Transport: s}))
	v := must(webhook.NewVerifier(o))
	signed := jws(strings.Replace(head, `"EdDSA"`, `"ES256","kid":"k1"`, 1), body, es256)
	for text, want := range map[string]error{body: nil, body + "0": webhook.ErrSignature} {
		if _, err := v.Check(t.Context(), http.Header{"Webhook-Jws": {signed}}, []byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// Else the host of the redirect would decide which callbacks are valid.
func TestKeySetFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/keys", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, jwks("k1"))
	}))
	defer s.Close()
	for path, want := range map[string]error{"/": webhook.ErrKey, "/keys": nil} {
		o, h, body := callback(webhook.JWS)
		o.KeySet = must(webhook.NewKeySet(s.URL+path, nil))
		if err := must(webhook.NewVerifier(o)).Verify(h, []byte(body)); !errors.Is(err, want) || err != nil &&
			!strings.HasSuffix(err.Error(), "status 302") {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestKeySetCachesForMaxAge(t *testing.T) {
	t.Parallel()
	for age, want := range map[string]time.Duration{"": 5 * time.Minute, "no-cache": 5 * time.Minute, "max-age=x": 5 * time.Minute,
		"public, Max-Age=90": 90 * time.Second, "max-age=0": 30 * time.Second, "max-age=-1": 30 * time.Second, "max-age=86400": time.Hour,
		"max-age=9000000000000": time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := &sender{age: age}
			check := receiver(s)
			for i, wait := range []time.Duration{0, want - 1, 1} {
				time.Sleep(wait) // sleep: virtual
				if err := check(t.Context(), "k1"); err != nil || s.fetches != 1+i/2 {
					t.Errorf("%q: %v after %d fetches, %s after a fetch", age, err, s.fetches, want-1)
				}
			}
		})
	}
}

// steps are calls of a receiver: when, for which key, whether the key is found, and how many fetches were made until then.
type steps []struct {
	wait    time.Duration
	id      string
	status  int
	found   bool
	fetches int
}

func TestKeySetFetchesAgain(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, list := range map[string]steps{
		"for an unknown key, every 30 s": {{0, "k1", 200, true, 1}, {29 * s, "new", 200, false, 1}, {s, "new", 200, false, 2},
			{0, "new", 200, false, 2}, {30 * s, "new", 200, false, 3}, {0, "k1", 200, true, 3}},
		"after a failure, every 5 s, with the old keys": {{0, "k1", 200, true, 1}, {300 * s, "k1", 500, true, 2}, {5*s - 1, "k1", 500, true, 2},
			{0, "new", 500, false, 2}, {1, "k1", 500, true, 3}, {5 * s, "k1", 200, true, 4}, {299 * s, "k1", 200, true, 4}},
		"after a failure without keys": {{0, "k1", 500, false, 1}, {5*s - 1, "k1", 200, false, 1}, {1, "k1", 200, true, 2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			from := &sender{}
			check := receiver(from)
			for i, step := range list {
				time.Sleep(step.wait) // sleep: virtual
				from.status = step.status
				if err := check(t.Context(), step.id); (err == nil) != step.found || err != nil && !errors.Is(err, webhook.ErrKey) ||
					from.fetches != step.fetches {
					t.Errorf("%s, step %d: %v, %d fetches, want %+v", name, i+1, err, from.fetches, step)
				}
			}
		})
	}
}

func untilEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestKeySetEndsFetchWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := receiver(&sender{answers: untilEnd})(t.Context(), "k1")
		if !errors.Is(err, webhook.ErrKey) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A caller who gives up during a fetch does not delay the fetch of the next caller.
func TestKeySetFetchesAfterCallerGaveUp(t *testing.T) {
	t.Parallel()
	for _, cached := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &sender{}
			check := receiver(s)
			if cached {
				if err := check(t.Context(), "k1"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second) // sleep: virtual
			}
			ctx, cancel := context.WithCancel(t.Context())
			first := make(chan error)
			s.answers = untilEnd
			go func() { first <- check(ctx, "k2") }()
			synctest.Wait()

			over, end := context.WithCancel(t.Context())
			end()
			if err := check(over, "k1"); !errors.Is(err, webhook.ErrKey) || !errors.Is(err, context.Canceled) {
				t.Errorf("the second caller, during the fetch: %v", err)
			}
			cancel()
			if err := <-first; !errors.Is(err, webhook.ErrKey) {
				t.Errorf("the first caller: %v", err)
			}
			s.answers, s.body = nil, strings.NewReader(jwks("k2"))
			if err := check(t.Context(), "k2"); err != nil {
				t.Errorf("with cached keys %v: %v", cached, err)
			}
		})
	}
}

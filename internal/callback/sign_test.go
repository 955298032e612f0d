package callback

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"notifier/internal/notice"
	"notifier/internal/route"
)

const vectorSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func secrets(t testing.TB, s string) []route.Secret {
	t.Helper()
	out, err := route.ParseSecrets(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPublishedVector(t *testing.T) {
	s := newSigner(secrets(t, vectorSecret))
	for range 2 { // the second time with a pooled hash
		got := s.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
		if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestLadderUnderRotation: a receiver written with the official library accepts
// every attempt of a ladder while the secret is rotated under it.
func TestLadderUnderRotation(t *testing.T) {
	oldSecret := vectorSecret
	newSecret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a second key of thirty-two bytes"))
	var mu sync.Mutex
	var verify *standardwebhooks.Webhook
	ids := map[string]bool{}
	stamps := map[string]bool{}
	base := server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		// The library's own clock is the machine's, the attempts' is not.
		if err := verify.VerifyIgnoringTimestamp(body, r.Header); err != nil {
			t.Errorf("attempt %s: %v", r.Header.Get("Notifier-Attempt"), err)
		}
		ids[r.Header.Get("Webhook-Id")], stamps[r.Header.Get("Webhook-Timestamp")] = true, true
		w.WriteHeader(500)
	}).URL
	now := made
	h := newHandler(t, Options{Now: func() time.Time { return now }})
	phases := []struct{ sender, receiver string }{
		{oldSecret, oldSecret}, {oldSecret + "," + newSecret, oldSecret}, {newSecret + "," + oldSecret, newSecret}, {newSecret, newSecret},
	}
	n := testNotice(`{"order":"4711","paid":true}`)
	attempts := len(notice.DefaultLadder) + 1
	for i := range attempts {
		p := phases[i*len(phases)/attempts]
		r := fixedRoute(base)
		r.Secrets = secrets(t, p.sender)
		wh, err := standardwebhooks.NewWebhook(p.receiver)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		verify = wh
		mu.Unlock()
		expect(t, h.Handle(background(t), r, n), notice.OutcomeRetry, notice.ReasonStatus5xx)
		n.Add(notice.Attempt{N: n.Coming()})
		if i < len(notice.DefaultLadder) {
			now = now.Add(notice.DefaultLadder[i])
		}
	}
	if len(ids) != 1 || len(stamps) != attempts {
		t.Errorf("%d ids, %d timestamps in %d attempts", len(ids), len(stamps), attempts)
	}
	for id := range ids {
		if strings.Contains(id, ".") {
			t.Errorf("id %s holds a dot", id)
		}
	}
}

func TestLibraryAcceptsTheFreshTimestamp(t *testing.T) {
	wh, _ := standardwebhooks.NewWebhook(vectorSecret)
	errs := make(chan error, 8)
	base := server(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodGet {
			body = []byte(r.URL.RawQuery)
		}
		errs <- wh.Verify(body, r.Header)
	}).URL
	h := newHandler(t, Options{})
	r := fixedRoute(base + "?x=1")
	r.Secrets = secrets(t, vectorSecret)
	for _, method := range []string{"POST", "PUT", "GET"} {
		n := testNotice(`{"a":1}`)
		n.Method = method
		h.Handle(background(t), r, n)
		if err := <-errs; err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := h.Prepare(&route.Route{Name: "short", Target: r.Target, Secrets: []route.Secret{[]byte("short")}}); err == nil ||
		strings.Contains(err.Error(), "short\"") {
		t.Errorf("a short secret: %v", err)
	}
}

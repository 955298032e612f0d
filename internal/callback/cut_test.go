package callback

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// echoed are the secrets of the calls of secretive, as a receiver may echo them.
var echoed = map[string]string{
	"header of the route":           "Q7jK/9vZ+r2LwXb8TnYd4mGp==",
	"same, in JSON of PHP":          `Q7jK\/9vZ+r2LwXb8TnYd4mGp==`,
	"same, in a query":              "Q7jK%2F9vZ%2Br2LwXb8TnYd4mGp%3D%3D",
	"authorization of the route":    "Bearer Ru8ZoW5qVd1EkNc7",
	"header of the notice":          `Hy6"Uw3<Ij9&Of4`,
	"same, in HTML":                 "Hy6&#34;Uw3&lt;Ij9&amp;Of4",
	"same, in JSON":                 `Hy6\"Uw3\u003cIj9\u0026Of4`,
	"same, quoted by Go":            `Hy6\"Uw3<Ij9&Of4`,
	"password of the url":           "Pz5/Lk8Mj2",
	"same, in the url":              "Pz5%2FLk8Mj2",
	"basic authentication":          base64.StdEncoding.EncodeToString([]byte("user:Pz5/Lk8Mj2")),
	"query of the url":              "Vc4/Sx7Df3",
	"same, as the url has it":       "Vc4%2fSx7Df3",
	"access token":                  "eyJhbGciOi.Wm1ZTk3Yjg.Gq6sRt0hPl",
	"previous access token":         "eyXpF5Nn0.Ek2oYJ8Ia.Tu7cBw4dM",
	"secret of the issuer's client": "Ch9-fLp3_Xt6",
}

// secretive makes a Handler with a route and a notice whose calls carry all secrets of echoed to an address.
func secretive(t *testing.T, address string) (*Handler, *route.Route, *notice.Notice) {
	t.Helper()
	tokens := []string{echoed["previous access token"], echoed["access token"]}
	var calls atomic.Int32
	issuer := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":3600}`, tokens[min(int(calls.Add(1))-1, 1)])
	})
	at, err := route.ParseTokenURL(issuer.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := noticeRoute("127.0.0.0/8")
	if r.HeadersTo, err = route.ParseOrigins(address); err != nil {
		t.Fatal(err)
	}
	r.Headers = []notice.Header{{Name: "X-Api-Key", Value: echoed["header of the route"]},
		{Name: "Proxy-Authorization", Value: echoed["authorization of the route"]}}
	r.OAuth2 = &route.OAuth2{TokenURL: at, ClientID: "notifier", ClientSecret: "Ch9-fLp3_Xt6"}
	n := testNotice("{}")
	n.URL = strings.Replace(address, "http://", "http://user:Pz5%2FLk8Mj2@", 1) + "/?token=Vc4%2fSx7Df3"
	n.Headers = []notice.Header{{Name: "X-Shop-Token", Value: echoed["header of the notice"]}}
	h := newHandler(t, Options{})
	s, err := h.state(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.tokens.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.tokens.got = s.tokens.got.Add(-2 * youngToken)
	s.tokens.renew(s.tokens.token) // the next call fetches the second token
	return h, r, n
}

// leak returns a part of a secret that a text contains, empty if there is none.
func leak(text, secret string) string {
	for i := 0; i+minScrub <= len(secret); i++ {
		if part := secret[i : i+minScrub]; part != "Bear" && part != "eare" && part != "arer" && strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// A receiver echoes one secret after some text, so that the cut of the answer is before, within or behind it.
func TestSecretIsHiddenAtEveryOffset(t *testing.T) {
	t.Parallel()
	var answer atomic.Pointer[string]
	base := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Echo", *answer.Load())
		w.WriteHeader(500)
		_, _ = w.Write([]byte(*answer.Load()))
	}).URL
	h, r, n := secretive(t, base)
	for kind, secret := range echoed {
		for pad := notice.KeptResponse - len(secret) - 8; pad <= notice.KeptResponse+1; pad++ {
			text := strings.Repeat("#", pad) + secret + " ###"
			answer.Store(&text)
			x, res := h.Probe(background(t), r, n), h.Handle(background(t), r, n)
			asJSON, _ := json.Marshal(x)
			if res.Status != 500 || len(res.Response) > notice.KeptResponse {
				t.Fatalf("%+v", res)
			}
			for _, text := range []string{res.Response, fmt.Sprintf("%+v", x), x.String(), string(asJSON)} {
				if part := leak(text, secret); part != "" {
					t.Fatalf("%s at byte %d: %q is in %s", kind, pad, part, text)
				}
			}
		}
	}
}

// The other texts of a result that contain an answer, or an error that quotes it, are cut at other lengths. An answer may
// also end within a secret.
func TestSecretIsHiddenInEveryText(t *testing.T) {
	t.Parallel()
	h, r, n := secretive(t, "http://127.0.0.1:1")
	s, err := h.state(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.tokens.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	to, err := s.target(n)
	if err != nil {
		t.Fatal(err)
	}
	secrets := func() scrubber { return s.secretsOf(n, to) }
	for kind, secret := range echoed {
		if strings.HasPrefix(kind, "same") {
			continue // the texts below are encoded already
		}
		check := func(at int, where string, res notice.Result) {
			t.Helper()
			if part := leak(res.Response, secret); part != "" {
				t.Errorf("%s, %s, byte %d: %q is in %s", kind, where, at, part, res.Response)
			}
			if res.Response == "" {
				t.Fatalf("%s: no text: %+v", where, res)
			}
		}
		for pad := range 320 {
			text := strings.Repeat("#", pad) + secret
			value, _ := json.Marshal(map[string]string{"code": text})
			check(pad, "a value that does not acknowledge", resultOf(ack(t, "json:code=0"), &facts{status: 200, body: value, secrets: secrets}))
			header := http.Header{"Location": {"https://elsewhere.example/" + strings.Repeat("x", pad) + secret + "/x"}}
			check(pad, "a redirect", resultOf(ack(t, "2xx"), &facts{status: 302, header: header, target: to.url, secrets: secrets}))
			err := fmt.Errorf("malformed HTTP response %s", strconv.Quote(text))
			check(pad, "an error", failure(&facts{secrets: secrets}, err, 0))
		}
		for end := 1; end <= len(secret); end++ {
			text := "got " + secret[:end]
			res := resultOf(ack(t, "2xx"), &facts{status: 200, body: []byte(text), secrets: secrets})
			check(end, "an answer that ends early", res)
		}
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	s := scrubber{"abcdef", "defghi", "xyxyxy"}
	for in, want := range map[string]string{
		"":                "",
		"abcde":           dots,     // it may have been cut
		"an abc":          "an abc", // shorter than minScrub
		"an abcd":         "an " + dots,
		"abcd and so on":  "abcd and so on",
		"abcdefghi!":      dots + "!",
		"abcdef abcdef":   dots + " " + dots,
		"abcdefabcdef":    dots,
		"xyxyxyxy":        dots,
		"xyxyxy-abcdef d": dots + "-" + dots + " d",
	} {
		if got := s.scrub(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

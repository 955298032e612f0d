package callback

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/testkit"
)

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://shop.example/a?b=1":              "https://shop.example/a?b=1",
		"https://user:hunter2@shop.example/a":     "https://•••@shop.example/a",
		"https://hunter2@shop.example/":           "https://•••@shop.example/",
		"https://h/?token=hunter2&a=1&token=x":    "https://h/?token=•••&a=1&token=•••",
		"https://h/?Access_Key=hunter2#f":         "https://h/?Access_Key=•••#f",
		"https://h/?to%6ben=hunter2":              "https://h/?to%6ben=•••",
		"https://h/?sig=hunter2&x-api-key=z&flag": "https://h/?sig=•••&x-api-key=•••&flag",
		"https://h/?%zz=hunter2":                  "https://h/?%zz=•••",
		"http://user:hunter2@h\x7f/":              "(an invalid address)",
		"user:hunter2@h":                          "user:•••",
		"redis://:hunter2@127.0.0.1:6379/0":       "redis://•••@127.0.0.1:6379/0",
	} {
		if got := RedactURL(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzRedactURL(f *testing.F) {
	f.Add("https://u:hunter2secret@h/?token=hunter2secret")
	f.Add("a:hunter2secret@b")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		out := RedactURL(s)
		if err != nil || u.User == nil {
			return
		}
		if pw, ok := u.User.Password(); ok && len(pw) > 8 && strings.Contains(out, pw) &&
			!strings.Contains(u.Host+u.Path+u.Fragment+u.RawQuery+u.Scheme, pw) {
			t.Errorf("%q shows %q", out, pw)
		}
	})
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\r\n": "plain\ttext\r\n", "成功": "成功", "\x00\x1b": `\x00\x1b`, "\xff成": `\xff\xe6\x88\x90`, "a\u202eb": "a\ufffdb",
		"\ufeffx": "\ufffdx",
	} {
		if got := printable([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, unit := range []string{"x", "é", "成", "😀", "\xff", "\x00", "x成"} {
		for pad := range 5 {
			got := printable([]byte(strings.Repeat("a", pad) + strings.Repeat(unit, 2000)))
			if len(got) > notice.KeptResponse || len(got) < notice.KeptResponse-8 || !utf8.ValidString(got) {
				t.Errorf("%q: %d bytes, %q", unit, len(got), got[len(got)-8:])
			}
			if utf8.ValidString(unit) && unit[0] >= 0x80 && strings.Contains(got, `\x`) {
				t.Errorf("%q was cut within a rune and escaped", unit)
			}
		}
	}
}

// TestNoSecretLeaks makes calls with secrets in all places, to receivers that echo the request and that fail
// in all ways, and checks every output for the secrets.
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	const password, token, header, proxyPW = "hunter2-password", "hunter2-token", "hunter2-header", "hunter2-proxy"
	secret := vectorSecret
	all := []string{password, token, header, proxyPW, secret}
	core, logs := observer.New(zap.DebugLevel)
	h := newHandler(t, Options{Logger: zap.New(core)})
	echo := server(t, func(w http.ResponseWriter, r *http.Request) {
		user, pw, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", "https://"+user+":"+pw+"@elsewhere/?token="+r.FormValue("token"))
		w.Header().Set("X-Echo", r.Header.Get("X-Shop-Token"))
		w.WriteHeader(int(r.ContentLength)*0 + map[string]int{"/200": 200, "/302": 302, "/500": 500, "/410": 410}[r.URL.Path])
		_, _ = fmt.Fprintf(w, "%s %s %q %v %s %s", user, pw, r.Header, r.URL, r.URL.Query().Get("token"), body)
	})
	withSecrets := func(base, path string) string {
		return strings.Replace(base, "http://", "http://user:"+password+"@", 1) + path + "?token=" + token
	}
	var texts []string
	n := testNotice("x")
	n.Headers = []notice.Header{{Name: "X-Shop-Token", Value: header}}
	for _, target := range []string{
		withSecrets(echo.URL, "/200"), withSecrets(echo.URL, "/302"), withSecrets(echo.URL, "/500"), withSecrets(echo.URL, "/410"),
		withSecrets("http://127.0.0.1:1", ""), withSecrets("http://10.0.0.1", ""), withSecrets("http://"+listen(t, nil, say("nonsense\r\n")), ""),
		withSecrets("http://"+listen(t, nil, reset("")), ""), withSecrets("http://0x7f.1", ""), "http://user:" + password + "@h\x7f/",
		"https" + withSecrets("http://"+listen(t, nil, say("plain")), "")[4:], "ftp://user:" + password + "@h/",
	} {
		for _, rule := range []string{"2xx", "body:success", "json:code=0"} {
			for _, proxy := range []string{"", "http://user:" + proxyPW + "@127.0.0.1:1", "http://user:" + proxyPW + "@h\x7f"} {
				routes := []*route.Route{noticeRoute("127.0.0.0/8")}
				if _, err := route.ParseTarget(target); err == nil {
					routes = append(routes, fixedRoute(target))
				} else {
					texts = append(texts, err.Error())
				}
				by, err := route.ParseProxy(proxy)
				if proxy != "" {
					texts = append(texts, fmt.Sprint(by, err))
				}
				n.URL = target
				for _, rt := range routes {
					rt.Ack, rt.Proxy, rt.Secrets = *ack(t, rule), by, secrets(t, secret)
					rt.Headers = []notice.Header{{Name: "X-Api-Key", Value: "Key " + header}}
					res := h.Handle(background(t), rt, n)
					x := h.Probe(background(t), rt, n)
					texts = append(texts, fmt.Sprintf("%+v", res), x.String(), fmt.Sprintf("%+v", x), fmt.Sprintf("%v", h.Prepare(rt)), fmt.Sprintf("%+v",
						rt.Secrets))
				}
			}
		}
	}
	for _, e := range logs.All() {
		texts = append(texts, e.Message, fmt.Sprint(e.ContextMap()))
	}
	testkit.CheckSecrets(t, all, texts...)
	if _, err := sign.ParseSecrets(secret + ",whsec_" + strings.Repeat("h", 7)); err == nil {
		t.Error(errors.New("a bad secret was taken"))
	} else {
		testkit.CheckSecrets(t, []string{secret}, err.Error())
	}
}

// A receiver that echoes a secret in JSON or in a url escapes it.
func TestEscapedSecretIsScrubbed(t *testing.T) {
	t.Parallel()
	var s scrubber
	s.add(`se"cr<et`)
	for _, echo := range []string{`se"cr<et`, `se\"cr<et`, `se\"cr\u003cet`, `se%22cr%3Cet`} {
		if got := s.scrub("no " + echo); got != "no "+dots {
			t.Errorf("%s: %s", echo, got)
		}
	}
}

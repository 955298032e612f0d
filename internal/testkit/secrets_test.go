package testkit

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

type recorder struct{ said []string }

func (*recorder) Helper()                     {}
func (r *recorder) Errorf(f string, a ...any) { r.said = append(r.said, fmt.Sprintf(f, a...)) }

func TestCheckFindsEveryForm(t *testing.T) {
	const secret = `hunter2/+"<pass>& word`
	j, _ := json.Marshal(map[string]string{"x": secret})
	leaks := map[string]string{
		"plain":     "dial redis://:" + secret + "@host failed",
		"quoted":    fmt.Sprintf("bad value %q", secret),
		"json":      string(j),
		"bytes":     fmt.Sprint(struct{ K []byte }{[]byte(secret)}),
		"go bytes":  fmt.Sprintf("%#v", struct{ K []byte }{[]byte(secret)}),
		"hex":       hex.EncodeToString([]byte("aa" + secret + "bb")),
		"HEX":       fmt.Sprintf("%X", secret),
		"query":     "https://h/?" + url.Values{"token": {secret}}.Encode(),
		"path":      "https://h/" + url.PathEscape(secret),
		"user":      (&url.URL{Scheme: "http", Host: "h", User: url.UserPassword("u", secret)}).String(),
		"b64 0":     base64.StdEncoding.EncodeToString([]byte(secret)),
		"b64 1":     base64.StdEncoding.EncodeToString([]byte("u" + secret + "x")),
		"b64 2":     "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+secret)),
		"b64 3":     "Basic " + base64.StdEncoding.EncodeToString([]byte("us:"+secret+"tail")),
		"b64url":    base64.RawURLEncoding.EncodeToString([]byte("ab" + secret)),
		"in a line": strings.Repeat("x", 10000) + secret + "\n",
	}
	for name, text := range leaks {
		r := &recorder{}
		CheckSecrets(r, []string{secret}, "nothing here", text)
		if len(r.said) == 0 {
			t.Errorf("%s: not found in %.200s", name, text)
		}
		for _, s := range r.said {
			if !strings.Contains(s, "text 2") || strings.Contains(s, "hunter2") {
				t.Errorf("%s: says %q", name, s)
			}
		}
	}
}

func TestCheckFindsKeyOfSigningSecret(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	key, _ := base64.StdEncoding.DecodeString(secret[6:])
	for _, text := range []string{secret, secret[6:], string(key), fmt.Sprint(key), hex.EncodeToString(key),
		base64.RawURLEncoding.EncodeToString(key)} {
		r := &recorder{}
		if CheckSecrets(r, []string{secret}, text); len(r.said) == 0 {
			t.Errorf("not found: %q", text)
		}
	}
}

func TestCheckPassesWithoutLeak(t *testing.T) {
	CheckSecrets(t, []string{"hunter2", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "", "https://•••@host/?token=•••", "hunter3 whsec_",
		"msg_0123456789abcdef")
	r := &recorder{}
	if CheckSecrets(r, []string{""}, "x"); len(r.said) != 1 {
		t.Error("an empty secret must be reported")
	}
}

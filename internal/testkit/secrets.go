package testkit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
)

// reporter is the part of testing.TB that the check needs.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// CheckSecrets fails the test if one of texts, such as a log or an answer, contains one of the secrets, plain or encoded. It
// recognises base64 (at any offset), hex, the escapes of URLs, JSON, Go and HTML, and the list of bytes that %v prints.
// If a secret begins with whsec_, Check also looks for the rest of it, and for the key that the rest encodes in base64.
func CheckSecrets(t reporter, secrets []string, texts ...string) {
	t.Helper()
	for _, secret := range secrets {
		if secret == "" {
			t.Errorf("testkit: an empty secret is in every text")
			continue
		}

		for form, needle := range forms(secret) {
			for i, text := range texts {
				if at := strings.Index(text, needle); at >= 0 {
					t.Errorf("text %d holds a secret (%s) at byte %d of %d", i+1, form, at, len(text))
				}
			}
		}
	}
}

// forms returns the encodings of a secret by name.
func forms(secret string) map[string]string {
	out := map[string]string{}
	add(out, "", secret)
	if enc, ok := strings.CutPrefix(secret, "whsec_"); ok {
		out["without whsec_"] = enc
		if key, err := base64.StdEncoding.DecodeString(enc); err == nil {
			add(out, "decoded ", string(key))
		}
	}

	return out
}

func add(out map[string]string, what, secret string) {
	out[what+"as it is"] = secret
	out[what+"in hex"] = hex.EncodeToString([]byte(secret))
	out[what+"in upper-case hex"] = strings.ToUpper(hex.EncodeToString([]byte(secret)))
	out[what+"query-escaped"] = url.QueryEscape(secret)
	out[what+"path-escaped"] = url.PathEscape(secret)
	out[what+"user-escaped"] = url.User(secret).String()
	out[what+"HTML-escaped"] = html.EscapeString(secret)
	out[what+"Go-quoted"] = trim(strconv.Quote(secret))
	if j, err := json.Marshal(secret); err == nil {
		out[what+"JSON-quoted"] = trim(string(j))
	}

	out[what+"as bytes"] = trim(fmt.Sprint([]byte(secret)))
	out[what+"as Go bytes"] = strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(secret)), "[]byte{"), "}")

	// Base64 has three encodings of the same bytes, by offset. The characters that depend on neighbouring
	// bytes are not searched.
	for off := range 3 {
		padded := append(bytes.Repeat([]byte{0}, off), secret...)
		for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			s := enc.EncodeToString(padded)
			from, to := (off*8+5)/6, len(padded)*8/6
			if to-from >= minBase64 {
				out[fmt.Sprintf("%sin %s at offset %d", what, name, off)] = s[from:to]
			}
		}
	}
}

// minBase64 is the shortest base64 text that does not match by chance.
const minBase64 = 6

// trim removes the quotes or brackets.
func trim(s string) string {
	if len(s) < 2 {
		return s
	}
	return s[1 : len(s)-1]
}

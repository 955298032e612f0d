package clienttest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"notifier/client"
)

// sealedMark begins each sealed text. The second part is the id of a data key; this service has only one.
const sealedMark = "s1c:clienttestclient:"

// sealed is the content in a sealed text.
type sealed struct {
	Body    []byte            `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// newSealer returns the key of a service's sealed texts.
func newSealer() cipher.AEAD {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("clienttest: " + err.Error()) // the length is valid
	}

	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("clienttest: " + err.Error())
	}

	return sealer
}

// seal returns the sealed text of a notice's content.
func (s *Service) seal(n *notice) string {
	plain, _ := json.Marshal(sealed{n.body, n.headers}) // bytes and strings can always be encoded
	return sealedMark + base64.RawURLEncoding.EncodeToString(s.sealer.Seal(nil, nil, plain, []byte(n.key)))
}

// open opens the sealed text of an entry.
func (s *Service) open(_ *http.Request, body []byte) (int, any) {
	m := fields(body, "body.", "key", "sealed")
	var key, text string
	if json.Unmarshal(m["key"], &key) != nil || !segments.MatchString(key) {
		panic(wrongField("body.key", "want app:module:type:id"))
	}

	_ = json.Unmarshal(m["sealed"], &text) // another type has no text
	rest, known := strings.CutPrefix(text, "s1c:")
	_, box, parts := strings.Cut(rest, ":")
	data, err := base64.RawURLEncoding.DecodeString(box)
	if !known || !parts || err != nil {
		panic(wrongField("body.sealed", "want the sealed text of an entry: s1c:…"))
	}

	plain, err := s.sealer.Open(nil, nil, data, []byte(key))
	if err != nil || !strings.HasPrefix(text, sealedMark) {
		panic(failed(http.StatusUnprocessableEntity, "the text does not open: it was changed, or is of another notice than key"))
	}

	var x sealed
	if err := json.Unmarshal(plain, &x); err != nil {
		panic("clienttest: " + err.Error()) // the text is of this service
	}

	c := content{body: x.Body, headers: x.Headers}
	if json.Valid(c.body) {
		c.contentType = "application/json"
	}

	opened := client.Opened{Key: key, ContentType: c.contentType}
	opened.Body, opened.BodyBase64 = c.shownBody()
	opened.Headers, opened.Withheld = c.shownHeaders()
	return http.StatusOK, present(opened)
}

// conceal takes the content out of the view of a sealed notice.
func (n *notice) conceal(view map[string]any) {
	for _, name := range []string{"headers", "headers_withheld", "content_type"} {
		delete(view, name)
	}

	if n.typed {
		view["content_type"] = n.contentType
	}

	for _, a := range view["attempts"].([]any) {
		delete(a.(map[string]any), "response")
	}
}

// typeOf returns the member with the content type, which the answer to a batch has for sealed notices too.
func (n *notice) typeOf() map[string]any {
	if n.contentType == "" {
		return nil
	}
	return map[string]any{"content_type": n.contentType}
}

// sealedDiffers is differs for a sealed notice: body and headers are one field, content.
func (c *content) sealedDiffers(o *content) (out []string) {
	given := func(c *content) string {
		if c.typed {
			return c.contentType
		}
		return ""
	}

	found := false
	for _, name := range c.differs(o) {
		switch {
		case name == "content_type" && given(c) == given(o):
		case name != "body" && name != "headers":
			out = append(out, name)
		case !found:
			out, found = append(out, "content"), true
		}
	}

	return out
}

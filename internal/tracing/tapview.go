package tracing

import (
	"crypto/rand"
	"strconv"
	"time"
	"unicode/utf8"

	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
)

// ShownCopy is a copy as a developer gets it.
type ShownCopy struct {
	Key     string            `json:"key"`
	Route   string            `json:"route"`
	ID      string            `json:"id"`
	Attempt int               `json:"attempt"`
	At      string            `json:"at"`
	Target  route.Kind        `json:"target"`
	Method  string            `json:"method"`
	URL     string            `json:"url,omitempty"`
	Query   string            `json:"query,omitempty"`
	Headers []ShownCopyHeader `json:"headers"`
	Body    string            `json:"body,omitempty"`
	Base64  []byte            `json:"body_base64,omitempty"`
	Size    int               `json:"body_size"`
	Cut     bool              `json:"body_cut,omitempty"`
	Masked  bool              `json:"masked,omitempty"`
	Signed  bool              `json:"signed"`
	Why     string            `json:"not_signed,omitempty"`
	Outcome notice.Outcome    `json:"outcome"`
	Reason  notice.Reason     `json:"reason,omitempty"`
	Status  int               `json:"status,omitempty"`
}

// ShownCopyHeader is a header of a copy.
type ShownCopyHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// View shows copies to one stream: signed with the stream's own key unless they are masked.
type View struct {
	rules  *mask.Rules
	secret sign.Secret
	chain  *sign.Chain // nil with rules
}

// secretSize is the length of a stream's key.
const secretSize = 32

// NewView makes a View with a new key, or without one if there are rules, by which copies are masked.
func NewView(rules *mask.Rules) *View {
	v := &View{rules: rules}
	if v.Masked() {
		return v
	}

	key := make([]byte, secretSize)
	_, _ = rand.Read(key) // never fails, says its doc
	v.secret = sign.SecretOf(key)
	chain, err := sign.New(&sign.Settings{Schemes: []sign.Scheme{sign.Standard}, Secrets: []sign.Secret{v.secret}, Per: sign.PerRoute})
	if err != nil {
		panic("tap: " + err.Error()) // the scheme has its secret
	}

	v.chain = chain
	return v
}

// Masked reports whether copies are masked.
func (v *View) Masked() bool { return !v.rules.None() }

// Secret is the key of the stream: whsec_ and base64. It is empty if copies are masked.
func (v *View) Secret() string { return v.secret.Reveal() }

// Show makes a copy fit to be shown.
func (v *View) Show(c *Copy) ShownCopy {
	c = masked(v.rules, c) // of an instance that has no rules yet
	s := ShownCopy{Key: c.Key, Route: c.Route, ID: c.ID, Attempt: c.Attempt, At: notice.Stamp(c.At), Target: c.Target, Method: c.Method,
		URL: c.URL, Query: c.Query, Size: c.Size, Cut: c.Cut, Masked: c.Masked, Outcome: c.Outcome, Reason: c.Reason, Status: c.Status,
		Headers: []ShownCopyHeader{}}
	for _, h := range c.Headers {
		s.Headers = append(s.Headers, ShownCopyHeader(h))
	}

	if utf8.Valid(c.Body) {
		s.Body = string(c.Body)
	} else {
		s.Base64 = c.Body
	}

	v.sign(c, &s)
	return s
}

// masked returns a copy with the parts hidden that the rules name, or c itself if there are no rules or c is masked already.
func masked(rules *mask.Rules, c *Copy) *Copy {
	if rules.None() || c.Masked {
		return c
	}

	shown := rules.View(mask.Sent{ContentType: contentType(c.Headers), Body: c.Body, URL: c.URL, Headers: c.Headers})
	m := *c
	m.Masked, m.Headers = true, nil
	m.URL, _ = shown.URL()
	if m.Query != "" { // of the body
		m.Query = mask.Hidden
	}

	for _, h := range c.Headers {
		if !notice.Reserved(h.Name) {
			h.Value, _ = shown.Header(h.Name, h.Value)
		}

		m.Headers = append(m.Headers, h)
	}

	body, whole := shown.Body()
	if m.Body = body; c.Cut || !whole { // a cut body cannot be parsed
		m.Body = []byte(mask.Hidden)
	}

	return &m
}

func contentType(list []notice.Header) string {
	for _, h := range list {
		if h.Name == "content-type" {
			return h.Value
		}
	}
	return ""
}

// sign signs a copy with the stream's key, at the present time.
func (v *View) sign(c *Copy, s *ShownCopy) {
	if s.Why = v.unsigned(c); s.Why != "" {
		return
	}

	body := c.Body
	if c.Query != "" {
		body = []byte(c.Query)
	}

	at := time.Now()
	signed, err := v.chain.Sign(&sign.Message{ID: c.ID, At: at, Body: body})
	if err != nil {
		s.Why = "it does not fit the scheme"
		return
	}

	s.Signed = true
	s.Headers = append(s.Headers, ShownCopyHeader{"webhook-timestamp", strconv.FormatInt(at.Unix(), 10)})
	for _, f := range signed.Fields {
		s.Headers = append(s.Headers, ShownCopyHeader{f.Name, f.Value})
	}
}

// unsigned returns why a copy is not signed; "" if it is.
func (*View) unsigned(c *Copy) string {
	switch {
	case c.Masked:
		return "masked"
	case c.Cut:
		return "the body is cut"
	case c.Target == route.KindList || c.Target == route.KindStream:
		return "an entry of a " + string(c.Target)
	case !c.Standard && c.Schemes == "":
		return "the route does not sign"
	case !c.Standard:
		return "the route signs with " + c.Schemes
	}
	return ""
}

package sign

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scheme is a way to sign.
type Scheme string

// The schemes.
const (
	Standard        Scheme = "standard"
	StandardEd25519 Scheme = "standard-ed25519"
	Stripe          Scheme = "stripe"
	GitHub          Scheme = "github"
	WechatPay       Scheme = "wechatpay"
	Alipay          Scheme = "alipay"
	JWS             Scheme = "jws"
	Sorted          Scheme = "sorted"
	SortedJeepay    Scheme = "sorted-jeepay"
)

// Schemes lists every scheme.
var Schemes = []Scheme{Standard, StandardEd25519, Stripe, GitHub, WechatPay, Alipay, JWS, Sorted, SortedJeepay}

// ParseSchemes reads one or several comma-separated schemes.
func ParseSchemes(s string) ([]Scheme, error) {
	var out []Scheme
	for part := range strings.SplitSeq(s, ",") {
		scheme := Scheme(strings.ToLower(strings.TrimSpace(part)))
		if !slices.Contains(Schemes, scheme) {
			return nil, fmt.Errorf("%.40q is not a scheme; want one or more of %s, comma-separated", part, join(Schemes))
		}
		if slices.Contains(out, scheme) {
			return nil, fmt.Errorf("%s is given twice", scheme)
		}

		out = append(out, scheme)
	}

	return out, nil
}

func join(schemes []Scheme) string {
	names := make([]string, len(schemes))
	for i, s := range schemes {
		names[i] = string(s)
	}

	return strings.Join(names, ", ")
}

// HMAC reports whether the scheme signs with a route's secrets.
func (s Scheme) HMAC() bool { return s == Standard || s == Stripe || s == GitHub }

// Text reports whether the scheme signs with the route's text key.
func (s Scheme) Text() bool { return s == Sorted || s == SortedJeepay }

// Shared reports whether receivers have the key that the scheme signs with, so that [Per] matters.
func (s Scheme) Shared() bool { return s.HMAC() || s.Text() }

// InBody reports whether the scheme adds its signature to the body.
func (s Scheme) InBody() bool { return s == Alipay || s.Text() }

// Fits reports whether a key of type t can sign with the scheme.
func (s Scheme) Fits(t KeyType) bool {
	switch s {
	case StandardEd25519:
		return t == Ed25519
	case WechatPay, Alipay:
		return t == RSA
	case JWS:
		return t == Ed25519 || t == P256
	default:
		return false
	}
}

// Settings are the schemes and keys of a route. They must not change once they are in use.
type Settings struct {
	Schemes []Scheme
	Secrets []Secret // of the HMAC schemes
	TextKey Secret   // of sorted and sorted-jeepay
	Per     Per
	Keys    []*Key // of the other schemes; all are published, the first that fits a scheme signs
	Headers Headers
}

// Key returns the key that signs with the scheme, nil if none fits.
func (s *Settings) Key(scheme Scheme) *Key {
	for _, k := range s.Keys {
		if scheme.Fits(k.Type) {
			return k
		}
	}
	return nil
}

// Has reports whether the scheme is one of those in use.
func (s *Settings) Has(scheme Scheme) bool { return slices.Contains(s.Schemes, scheme) }

// HMAC reports whether one of the schemes signs with the secrets.
func (s *Settings) HMAC() bool { return slices.ContainsFunc(s.Schemes, Scheme.HMAC) }

// Shared reports whether receivers have the key of one of the schemes.
func (s *Settings) Shared() bool { return slices.ContainsFunc(s.Schemes, Scheme.Shared) }

// Reserves reports whether a scheme in use writes the header of that name.
func (s *Settings) Reserves(name string) bool {
	folded := Fold(name)
	for _, scheme := range s.Schemes {
		for _, own := range s.Headers.Of(scheme) {
			if Fold(own) == folded {
				return true
			}
		}
	}

	return false
}

// NeedError means that a scheme has no key.
type NeedError struct {
	Scheme Scheme
	// Want describes the missing key. Secret and Text report whether it is a secret or a text key, and Serial
	// whether the key is there but not its serial number.
	Want                 string
	Secret, Serial, Text bool
}

func (e *NeedError) Error() string { return fmt.Sprintf("the scheme %s needs %s", e.Scheme, e.Want) }

// need returns a [NeedError] if the scheme lacks a key, and nil otherwise.
func (s *Settings) need(scheme Scheme) error {
	switch {
	case scheme.HMAC() && len(s.Secrets) == 0:
		return &NeedError{Scheme: scheme, Secret: true, Want: "a secret: " + makeSecret}
	case scheme.Text() && s.TextKey.text == "":
		return &NeedError{Scheme: scheme, Text: true, Want: "the text that receivers have as their key"}
	case scheme.Shared() || s.Key(scheme) != nil && (scheme != WechatPay || s.Key(scheme).Serial != ""):
		return nil
	case s.Key(scheme) != nil:
		return &NeedError{Scheme: scheme, Serial: true, Want: "the serial number by which receivers find the public key"}
	case scheme == StandardEd25519:
		return &NeedError{Scheme: scheme, Want: "an Ed25519 key: openssl genpkey -algorithm ed25519 makes one"}
	case scheme == JWS:
		return &NeedError{Scheme: scheme, Want: "an Ed25519 or P-256 key: openssl genpkey -algorithm ed25519 makes one"}
	}

	return &NeedError{Scheme: scheme, Want: "an RSA key: openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 makes one"}
}

// Message is one callback to sign.
type Message struct {
	ID       string    // webhook-id; contains no dot
	At       time.Time // of the attempt
	Body     []byte    // the sent body, or a GET's query
	Type     string    // Content-Type
	Host     string    // the receiver's, in the form of notice.Host
	Audience string
	Explain  bool // keep the signed texts
}

// Field is a header of a signed callback.
type Field struct{ Name, Value string }

// Text is a text that was signed.
type Text struct {
	Scheme Scheme
	Bytes  []byte
}

// Signed is the part of a callback that signing adds or changes.
type Signed struct {
	Body   []byte // the sent body; with alipay, sorted and sorted-jeepay it differs from the message's
	Fields []Field
	Texts  []Text // of a message with Explain
}

// add adds a header. Values of one header are separated by spaces, as Standard Webhooks
// has it.
func (s *Signed) add(name, value string) {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			s.Fields[i].Value += " " + value
			return
		}
	}
	s.Fields = append(s.Fields, Field{name, value})
}

// addStandard adds the headers of Standard Webhooks.
func (s *Signed) addStandard(names []string, m *Message, signature string) {
	if last := len(names) - 1; last > 0 { // webhook-id and webhook-timestamp are added to every callback
		for i, value := range []string{m.ID, strconv.FormatInt(m.At.Unix(), 10)} {
			if !slices.Contains(s.Fields, Field{names[i], value}) {
				s.add(names[i], value)
			}
		}
	}

	s.add(names[len(names)-1], signature)
}

// explain keeps the parts of a signed text.
func (s *Signed) explain(m *Message, scheme Scheme, parts ...[]byte) {
	if m.Explain {
		s.Texts = append(s.Texts, Text{scheme, slices.Concat(parts...)})
	}
}

// Signer signs callbacks with one scheme. It is safe for concurrent use.
type Signer interface {
	// Sign adds the scheme's headers to out. It signs out.Body, and may append to it.
	// An error means that the message does not fit the scheme.
	Sign(m *Message, out *Signed) error
}

// Chain signs callbacks with the schemes of one route. It is safe for concurrent use.
type Chain struct{ signers []Signer }

// New makes a Chain. Its error is a [NeedError].
func New(s *Settings) (*Chain, error) {
	c := &Chain{}
	for _, scheme := range s.Schemes {
		if err := s.need(scheme); err != nil {
			return nil, err
		}

		signer := newSigner(s, scheme)
		if scheme.InBody() { // it appends its signature to the body, and the other schemes sign the body that is sent
			c.signers = slices.Insert(c.signers, 0, signer)
		} else {
			c.signers = append(c.signers, signer)
		}
	}

	return c, nil
}

func newSigner(s *Settings, scheme Scheme) Signer {
	key, names := s.Key(scheme), s.Headers.Of(scheme)
	switch scheme {
	case StandardEd25519:
		return standardEd25519{key, names}
	case Stripe:
		return &stripe{newMACs(s, true), names[0]}
	case GitHub:
		return &github{newMACs(s, true), names[0]}
	case WechatPay:
		return &wechatPay{key, names}
	case Alipay:
		return alipay{key}
	case JWS:
		return &jws{key, names[0]}
	case Sorted, SortedJeepay:
		return &sorted{scheme, s.TextKey, s.Per}
	default:
		return &standard{newMACs(s, false), names}
	}
}

// Sign signs a message with each scheme.
func (c *Chain) Sign(m *Message) (Signed, error) {
	out := Signed{Body: m.Body}
	for _, s := range c.signers {
		if err := s.Sign(m, &out); err != nil {
			return Signed{}, err
		}
	}

	return out, nil
}

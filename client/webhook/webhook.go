package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far a timestamp may be off, both ways, unless
// [Verifier.Tolerance] says otherwise.
const Tolerance = 5 * time.Minute

// Scheme is a way to sign.
type Scheme string

// The schemes, as the sender's _SIGN names them.
const (
	Standard        Scheme = "standard"
	StandardEd25519 Scheme = "standard-ed25519"
	Stripe          Scheme = "stripe"
	GitHub          Scheme = "github"
	WechatPay       Scheme = "wechatpay"
	Alipay          Scheme = "alipay"
	JWS             Scheme = "jws"
)

// headers are the usual names of the schemes' headers.
var headers = map[Scheme]string{Standard: "Webhook-Signature", StandardEd25519: "Webhook-Signature", Stripe: "Notifier-Signature",
	GitHub: "X-Hub-Signature-256", WechatPay: "Wechatpay", Alipay: "", JWS: "Webhook-Jws"}

func (s Scheme) hmac() bool { return s == Standard || s == Stripe || s == GitHub }

// The errors of this package. None of them, and nothing that wraps them, holds a
// secret or the signature that would have been right, so that they may be logged
// and sent back.
var (
	// ErrHeader: webhook-id, webhook-timestamp or webhook-signature is missing,
	// given twice, or not of its form. The sender is no notifier, the route has no
	// secret, or something in between drops headers.
	ErrHeader = errors.New("webhook: a header is missing or not of its form")
	// ErrTimestamp: the timestamp is further off than the tolerance. The request is
	// an old one played again, or one of the two clocks is wrong. Whether the
	// signature fits has not been looked at.
	ErrTimestamp = errors.New("webhook: the timestamp is too far off")
	// ErrSignature: no signature fits any secret. The body was changed, or read
	// another way than byte for byte, or the secret is another one.
	ErrSignature = errors.New("webhook: no signature fits")
	// ErrSecret: a secret, a key or another option cannot be used. It is the receiver's
	// configuration that is wrong, not the request: answer 500 and look into it.
	ErrSecret = errors.New("webhook: a secret cannot be used")
	// ErrKey: the public key that the request names was not found, or the key set cannot
	// be fetched. Answer 500, so that the sender tries again.
	ErrKey = errors.New("webhook: the public key was not found")
	// ErrHost: the callback was signed for another host. Somebody passed it on.
	ErrHost = errors.New("webhook: the callback is for another host")
	// ErrBody: the body is not a form that Alipay's scheme signs.
	ErrBody = errors.New("webhook: the body is not a signed form")
)

// Verify reports with nil that a request with these headers and this body was
// signed with one of the secrets, at most [Tolerance] ago. A secret is whsec_ and
// base64, as the route's _SECRET has it or GET /v1/routes/{name}/secret gives it;
// one string may hold several with commas between them. The error wraps [ErrHeader],
// [ErrTimestamp], [ErrSignature] or [ErrSecret].
//
// It parses the secrets anew each time; a receiver of many requests makes a
// [Verifier] once with [New].
func Verify(h http.Header, body []byte, secrets ...string) error {
	v, err := New(secrets...)
	if err != nil {
		return err
	}
	return v.Verify(h, body)
}

// Options of [NewVerifier].
type Options struct {
	// Scheme is how the sender signs. Empty means [Standard].
	Scheme Scheme
	// Secrets are for Standard, Stripe and GitHub, each as [Verify] takes it.
	Secrets []string
	// Keys are public keys for the other schemes: PEM (PUBLIC KEY or CERTIFICATE, one or
	// more), or whpk_ and base64 for Ed25519. KeySet, if not nil, is used in their place.
	Keys   []string
	KeySet *KeySet
	// Header is the signature's header if the sender gave it another name; of WechatPay
	// the part before -Signature. Empty means the usual one.
	Header string
	// Host is this receiver's host as in its url, without port. JWS needs it: its key signs
	// for all receivers, and the host shows that a callback was meant for this one.
	Host string
	// Tolerance and Now are fields of the [Verifier].
	Tolerance time.Duration
	Now       func() time.Time
}

// Verifier verifies requests against the secrets or keys it was made with. It may be used
// by many goroutines at once, as long as nobody sets its fields.
type Verifier struct {
	// Tolerance is how far a timestamp may be off, both ways. 0 means [Tolerance];
	// negative means that timestamps are not checked, for tests with requests that
	// were recorded.
	Tolerance time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	scheme  Scheme
	secrets []secret
	keys    []publicKey
	set     *KeySet
	header  string
	host    string
}

// Result says what a valid signature covers.
type Result struct {
	Scheme Scheme
	// ID is the webhook-id, if the scheme signs it; empty otherwise.
	ID string
	// At is when the sender signed; zero if TimeUnchecked.
	At time.Time
	// TimeUnchecked: the scheme signs no time, or Tolerance is negative. An old request
	// that is sent again is valid. Deduplicate by the body.
	TimeUnchecked bool
	// KeyID names the public key, if the request does; empty otherwise.
	KeyID string
}

// New makes a Verifier for [Standard] from secrets, each as [Verify] takes it. Its error
// wraps [ErrSecret]; no secret at all is one too.
func New(secrets ...string) (*Verifier, error) { return NewVerifier(Options{Secrets: secrets}) }

// NewVerifier makes a Verifier for one scheme. Its error wraps [ErrSecret].
func NewVerifier(o Options) (*Verifier, error) {
	v := &Verifier{Tolerance: o.Tolerance, Now: o.Now, scheme: o.Scheme, set: o.KeySet, header: o.Header, host: hostOf(o.Host)}
	if v.scheme == "" {
		v.scheme = Standard
	}
	usual, known := headers[v.scheme]
	if !known {
		return nil, fmt.Errorf("%w: there is no scheme %q", ErrSecret, v.scheme)
	}
	if v.header == "" {
		v.header = usual
	}
	if v.scheme.hmac() {
		return v, v.readSecrets(o.Secrets)
	}
	if v.scheme == JWS && v.host == "" {
		return nil, fmt.Errorf("%w: the scheme jws needs Host, this receiver's own", ErrSecret)
	}
	return v, v.readKeys(o.Keys)
}

// secret is a key of the HMAC schemes: as bytes, and as it was written.
type secret struct {
	key  []byte
	text string
}

func (v *Verifier) readSecrets(lists []string) error {
	for _, list := range lists {
		for s := range strings.SplitSeq(list, ",") {
			key, wrong := parse(s)
			if wrong != "" {
				return fmt.Errorf("%w: number %d %s; want whsec_ and 24 to 64 bytes in base64", ErrSecret, len(v.secrets)+1, wrong)
			}
			v.secrets = append(v.secrets, secret{key, strings.TrimSpace(s)})
		}
	}
	if len(v.secrets) == 0 {
		return fmt.Errorf("%w: none is given", ErrSecret)
	}
	return nil
}

// parse returns a secret's bytes, or what is wrong with it. What the decoder says
// is dropped, since it tells of the secret's letters.
func parse(s string) (key []byte, wrong string) {
	const least, most = 24, 64
	encoded, ok := strings.CutPrefix(strings.TrimSpace(s), "whsec_")
	if !ok {
		return nil, "does not begin with whsec_"
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	switch {
	case err != nil:
		return nil, "is not base64"
	case len(key) < least || len(key) > most:
		return nil, fmt.Sprintf("has %d bytes", len(key))
	}
	return key, ""
}

// Verify is [Verifier.Check] without a context, for those who need no Result.
func (v *Verifier) Verify(h http.Header, body []byte) error {
	_, err := v.Check(context.Background(), h, body)
	return err
}

// Check verifies a request's headers and body. body is what [Payload] returns. ctx bounds
// the fetch of a [KeySet]. The error wraps one of this package's, which says what failed.
func (v *Verifier) Check(ctx context.Context, h http.Header, body []byte) (Result, error) {
	r, err := v.check(ctx, h, body)
	if err != nil {
		return Result{}, err
	}
	r.Scheme = v.scheme
	if r.At.IsZero() || v.Tolerance < 0 {
		r.TimeUnchecked = true
	}
	return r, nil
}

func (v *Verifier) check(ctx context.Context, h http.Header, body []byte) (Result, error) {
	switch v.scheme {
	case Standard, StandardEd25519:
		return v.standard(ctx, h, body)
	case Stripe:
		return v.stripe(h, body)
	case GitHub:
		return v.github(h, body)
	case WechatPay:
		return v.wechatPay(ctx, h, body)
	case Alipay:
		return v.alipay(ctx, body)
	case JWS:
		return v.jws(ctx, h, body)
	}
	return Result{}, fmt.Errorf("%w: the Verifier was not made by New", ErrSecret)
}

func one(h http.Header, name string) (string, error) {
	switch values := h.Values(name); {
	case len(values) == 0 || values[0] == "":
		return "", fmt.Errorf("%w: %s is missing", ErrHeader, strings.ToLower(name))
	case len(values) > 1:
		return "", fmt.Errorf("%w: %s is given twice", ErrHeader, strings.ToLower(name))
	default:
		return values[0], nil
	}
}

func (v *Verifier) fresh(at time.Time) error {
	if v.Tolerance < 0 {
		return nil
	}
	now, most := time.Now, v.Tolerance
	if v.Now != nil {
		now = v.Now
	}
	if most == 0 {
		most = Tolerance
	}
	if off := now().Sub(at); off > most || off < -most {
		return fmt.Errorf("%w: by %s, at most %s is taken", ErrTimestamp, off.Abs().Round(time.Second), most)
	}
	return nil
}

// Payload reads the bytes that are signed: the request's body, at most so many
// bytes of it, or of a GET its query, where the fields of the body stand. A longer
// body is an [http.MaxBytesError].
func Payload(r *http.Request, most int64) ([]byte, error) {
	if r.Method == http.MethodGet {
		return []byte(r.URL.RawQuery), nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, most))
	if err != nil {
		return nil, fmt.Errorf("webhook: read the body: %w", err)
	}
	return body, nil
}

// Sign sets the three headers as notifier does, with one signature per secret:
// for tests of receivers. The error wraps [ErrSecret].
func Sign(h http.Header, id string, at time.Time, body []byte, secrets ...string) error {
	v, err := New(secrets...)
	if err != nil {
		return err
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	all := make([]string, len(v.secrets))
	for i, s := range v.secrets {
		all[i] = "v1," + base64.StdEncoding.EncodeToString(sum(s.key, id+"."+stamp+".", body))
	}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", strings.Join(all, " "))
	return nil
}

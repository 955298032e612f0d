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

// Tolerance is the default of [Verifier.Tolerance].
const Tolerance = 5 * time.Minute

// Scheme is a signature scheme.
type Scheme string

// The schemes, with the names of the sender's setting _SIGN.
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

// headers are the default headers of the schemes.
var headers = map[Scheme]string{Standard: "Webhook-Signature", StandardEd25519: "Webhook-Signature", Stripe: "Notifier-Signature",
	GitHub: "X-Hub-Signature-256", WechatPay: "Wechatpay", Alipay: "", JWS: "Webhook-Jws", Sorted: "",
	SortedJeepay: ""}

// hmac reports whether the scheme signs with secrets.
func (s Scheme) hmac() bool { return s == Standard || s == Stripe || s == GitHub }

// text reports whether the scheme signs with a text key.
func (s Scheme) text() bool { return s == Sorted || s == SortedJeepay }

// The errors of this package. They contain neither a secret nor a valid signature, and nor do the errors
// that wrap them. So they may be logged and sent to the caller.
var (
	// ErrHeader: webhook-id, webhook-timestamp or webhook-signature is missing, given twice or malformed.
	// The sender is not notifier, the route has no secret, or a proxy removes headers.
	ErrHeader = errors.New("webhook: a header is missing or malformed")
	// ErrTimestamp: the timestamp differs from the present by more than the tolerance. The request is
	// old and was replayed, or a clock is wrong. The signature was not checked, except that of a JWS.
	ErrTimestamp = errors.New("webhook: the timestamp is too far off")
	// ErrSignature: no signature is valid for any secret. The body was changed or parsed, or the secret
	// is a different one.
	ErrSignature = errors.New("webhook: no signature is valid")
	// ErrSecret: a secret, a key or another option is invalid. The configuration of the receiver is
	// wrong, not the request: answer 500 and fix it.
	ErrSecret = errors.New("webhook: a secret cannot be used")
	// ErrKey: the public key of the request was not found, or the key set cannot be fetched. Answer 500,
	// so that the sender tries again.
	ErrKey = errors.New("webhook: the public key was not found")
	// ErrHost: the callback was signed for another host. Another receiver has forwarded it.
	ErrHost = errors.New("webhook: the callback is for another host")
	// ErrBody: the body is not a form with a signature of Alipay's scheme, or not a form or JSON object with one of Sorted.
	ErrBody = errors.New("webhook: the body is not signed in its fields")
)

// Verify checks that a request was signed with one of the secrets, and that its timestamp is at most [Tolerance] from
// now. A secret is the value of the route's _SECRET setting, and begins with whsec_. One string may contain several
// secrets, separated by commas. The error wraps [ErrHeader], [ErrTimestamp], [ErrSignature] or [ErrSecret].
//
// For many requests, create a [Verifier] once, with [New]: Verify parses the secrets in each call.
func Verify(h http.Header, body []byte, secrets ...string) error {
	v, err := New(secrets...)
	if err != nil {
		return err
	}

	return v.Verify(h, body)
}

// Options are the options of [NewVerifier].
type Options struct {
	// Scheme is the scheme of the sender. Empty means [Standard].
	Scheme Scheme
	// Secrets are the secrets of Standard, Stripe and GitHub, in the form of [Verify], or the text keys of Sorted and
	// SortedJeepay, several in one string separated by commas.
	Secrets []string
	// Keys are the public keys of the other schemes. Each is one or more PEM blocks (PUBLIC KEY or
	// CERTIFICATE), or whpk_ and base64 for Ed25519. KeySet, if not nil, is used instead.
	Keys   []string
	KeySet *KeySet
	// Header is the name of the signature header, if the sender has configured one; for WechatPay the
	// part before -Signature. Several names are separated by |, as in the sender's _SIGN_HEADER. Empty means the default.
	Header string
	// Host is this receiver's host in the callback URL, without port. JWS requires it. Its key signs for
	// all receivers, and the signed host shows that a callback is for this one.
	Host string
	// Tolerance and Now set the fields of the [Verifier].
	Tolerance time.Duration
	Now       func() time.Time
}

// Verifier verifies requests with fixed secrets or keys. It is safe for concurrent use while its fields
// do not change.
type Verifier struct {
	// Tolerance is the maximum difference between a timestamp and the present, past or future. 0 means
	// the constant Tolerance. A negative value disables the check, for tests with recorded requests.
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

// Result has the signed values of a valid request.
type Result struct {
	Scheme Scheme
	// ID is the webhook-id, if the scheme signs it; empty otherwise.
	ID string
	// At is the time of the signature. It is zero if the scheme signs no time.
	At time.Time
	// TimeUnchecked: the scheme signs no time, or Tolerance is negative. Then a replayed old request is
	// valid. Deduplicate by the body.
	TimeUnchecked bool
	// KeyID is the id of the public key in the request; empty = none.
	KeyID string
}

// New returns a Verifier for [Standard] with secrets in the form of [Verify]. At least one is needed. The
// error wraps [ErrSecret].
func New(secrets ...string) (*Verifier, error) { return NewVerifier(Options{Secrets: secrets}) }

// NewVerifier returns a Verifier for one scheme. The error wraps [ErrSecret].
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

	if v.scheme.hmac() || v.scheme.text() {
		return v, v.readSecrets(o.Secrets)
	}
	if v.scheme == JWS && v.host == "" {
		return nil, fmt.Errorf("%w: the scheme jws needs Host, the host of this receiver", ErrSecret)
	}

	return v, v.readKeys(o.Keys)
}

// secret is a secret of the HMAC schemes, decoded and as text.
type secret struct {
	key  []byte
	text string
}

// readSecrets parses the secrets of Options.
func (v *Verifier) readSecrets(lists []string) error {
	for _, list := range lists {
		for s := range strings.SplitSeq(list, ",") {
			if s = strings.TrimSpace(s); v.scheme.text() && s != "" {
				v.secrets = append(v.secrets, secret{text: s})
				continue
			} else if v.scheme.text() {
				return fmt.Errorf("%w: number %d is empty; want the text key", ErrSecret, len(v.secrets)+1)
			}

			key, wrong := parse(s)
			if wrong != "" {
				return fmt.Errorf("%w: number %d %s; want whsec_ and 24 to 64 bytes in base64", ErrSecret, len(v.secrets)+1, wrong)
			}

			v.secrets = append(v.secrets, secret{key, s})
		}
	}

	if len(v.secrets) == 0 {
		return fmt.Errorf("%w: no secret is given", ErrSecret)
	}

	return nil
}

// parse decodes a secret. wrong says why it is invalid. The error of the decoder is dropped, because it
// could reveal letters of the secret.
func parse(s string) (key []byte, wrong string) {
	const least, most = 24, 64
	encoded, ok := strings.CutPrefix(s, "whsec_")
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

// Verify is [Verifier.Check] without a context and a Result.
func (v *Verifier) Verify(h http.Header, body []byte) error {
	_, err := v.Check(context.Background(), h, body)
	return err
}

// Check verifies the headers and the body of a request. body is the result of [Payload]. ctx limits the
// fetch of a [KeySet]. The error wraps one of the errors of this package.
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

// check verifies a request with the function of the scheme.
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
	case Sorted, SortedJeepay:
		return v.sorted(body)
	}
	return Result{}, fmt.Errorf("%w: the Verifier was not created by New or NewVerifier", ErrSecret)
}

// one returns the value of a header that must occur exactly once.
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

// fresh returns ErrTimestamp if a time is too far from the present.
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
		return fmt.Errorf("%w: by %s, more than the tolerance of %s", ErrTimestamp, off.Abs().Round(time.Second), most)
	}

	return nil
}

// Payload returns the signed bytes of a request: its body, or its query if the method is GET. A body of
// more than most bytes is an [http.MaxBytesError].
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

// Sign sets the three headers of [Standard], with one signature per secret. It is for tests of receivers.
// The error wraps [ErrSecret].
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

package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
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
	// ErrSecret: a secret cannot be used. It is the receiver's configuration that
	// is wrong, not the request: answer 500 and look into it.
	ErrSecret = errors.New("webhook: a secret cannot be used")
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

// Verifier verifies requests against the secrets it was made with. It may be used
// by many goroutines at once, as long as nobody sets its fields.
type Verifier struct {
	// Tolerance is how far a timestamp may be off, both ways. 0 means [Tolerance];
	// negative means that timestamps are not checked, for tests with requests that
	// were recorded.
	Tolerance time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	keys [][]byte
}

// New reads the secrets, each as [Verify] takes it. Its error wraps [ErrSecret];
// no secret at all is one too.
func New(secrets ...string) (*Verifier, error) {
	v := &Verifier{}
	for _, list := range secrets {
		for s := range strings.SplitSeq(list, ",") {
			key, wrong := parse(s)
			if wrong != "" {
				return nil, fmt.Errorf("%w: number %d %s; want whsec_ and 24 to 64 bytes in base64", ErrSecret, len(v.keys)+1, wrong)
			}
			v.keys = append(v.keys, key)
		}
	}
	if len(v.keys) == 0 {
		return nil, fmt.Errorf("%w: none is given", ErrSecret)
	}
	return v, nil
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

// Verify is [Verify] with the secrets of New.
func (v *Verifier) Verify(h http.Header, body []byte) error {
	if len(v.keys) == 0 {
		return fmt.Errorf("%w: the Verifier was not made by New", ErrSecret)
	}
	id, err := one(h, "Webhook-Id")
	if err != nil {
		return err
	}
	stamp, err := one(h, "Webhook-Timestamp")
	if err != nil {
		return err
	}
	given := strings.Join(h.Values("Webhook-Signature"), " ")
	if given == "" {
		return fmt.Errorf("%w: webhook-signature is missing", ErrHeader)
	}
	// Signed is the text, so only one spelling of a number is taken.
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != stamp {
		return fmt.Errorf("%w: webhook-timestamp is no number of seconds", ErrHeader)
	}
	if err := v.fresh(time.Unix(seconds, 0)); err != nil {
		return err
	}
	if !v.fits(id, stamp, given, body) {
		return ErrSignature
	}
	return nil
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

// fits reports whether one of the signatures is that of one of the secrets. All
// are computed and compared whatever comes of it, so that the time this takes
// tells nothing of which was right, and hmac.Equal tells nothing of how much of
// one was.
func (v *Verifier) fits(id, stamp, given string, body []byte) bool {
	const most = 32 // a header full of signatures must not cost as many hashes
	found := false
	for _, key := range v.keys {
		want := []byte(signature(key, id, stamp, body))
		n := 0
		for s := range strings.FieldsSeq(given) {
			if n++; n > most {
				break
			}
			if hmac.Equal([]byte(s), want) {
				found = true
			}
		}
	}
	return found
}

func signature(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
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
	all := make([]string, len(v.keys))
	for i, key := range v.keys {
		all[i] = signature(key, id, stamp, body)
	}
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", stamp)
	h.Set("Webhook-Signature", strings.Join(all, " "))
	return nil
}

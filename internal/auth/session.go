package auth

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"notifier/internal/wire"
)

// Life is how long a session lasts.
const Life = 12 * time.Hour

// MaxSessions is the maximum number of sessions of a link, and of a client.
const MaxSessions = 1000

// Register keeps sessions and links in Redis. A session is that of a link, or, if link is
// empty, of a client.
type Register interface {
	// BeginSession stores the session with an id until it expires after the given time. link is empty for a session of
	// a client. If the link has MaxSessions already, BeginSession returns *Full. If the link has ended, it returns
	// ErrLink. If the client has MaxSessions, BeginSession ends the one that expires first.
	BeginSession(ctx context.Context, client, link, id string, during time.Duration) error
	// EndSession ends a session.
	EndSession(ctx context.Context, client, link, id string) error
	// SessionStands reports whether a session is kept, and its link, if any, is good.
	SessionStands(ctx context.Context, client, link, id string) (bool, error)
	// KeepLink stores the text of a client's link for a time, or returns *LinksFull; Link returns the text, empty if there
	// is none; DropLink revokes the link and ends its sessions.
	KeepLink(ctx context.Context, client, id, text string, during time.Duration) error
	Link(ctx context.Context, id string) (string, error)
	DropLink(ctx context.Context, client, id string) error
	// CountResend counts a resend of a link; see [Sessions.CountResend].
	CountResend(ctx context.Context, link string) (wait time.Duration, err error)
}

// Errors that callers distinguish. All others mean that a check failed.
var (
	// ErrToken means that no client has the token.
	ErrToken = errors.New("unknown token")
	// ErrNoSession: it is no session, or one that has ended.
	ErrNoSession = errors.New("there is no session, or it has ended")
	// ErrBadLink: it is no link, or one that has ended.
	ErrBadLink = errors.New("this link has ended, or was never made")
)

// TooMany means that too many attempts to sign in from an address have failed.
type TooMany struct{ Wait time.Duration }

func (e *TooMany) Error() string {
	return fmt.Sprintf("too many attempts to sign in from this address; the next one is possible in %d s", e.Seconds())
}

// Seconds to wait, rounded up.
func (e *TooMany) Seconds() int { return int((e.Wait + time.Second - 1) / time.Second) }

// SessionsFull means that a link has as many sessions as it may.
type SessionsFull struct{ Wait time.Duration }

func (e *SessionsFull) Error() string {
	return fmt.Sprintf("this link has been opened %d times by people who did not sign out; the next time is possible in %d s", MaxSessions,
		e.Seconds())
}

// Seconds to wait, rounded up.
func (e *SessionsFull) Seconds() int { return int((e.Wait + time.Second - 1) / time.Second) }

// SessionOptions of an Office.
type SessionOptions struct {
	Keys     *wire.KeyRing
	Clients  *Clients
	Register Register
	// Failures limits wrong tokens, at the API too. Nil: separate limits.
	Failures *Failures
	// Now is Redis's clock, by which sessions and links end. Nil means time.Now.
	Now func() time.Time
}

// Sessions issues and checks sessions and links. It is safe for concurrent use.
type Sessions struct{ o SessionOptions }

// NewSessions opens an Office.
func NewSessions(o SessionOptions) *Sessions {
	if o.Now == nil {
		o.Now = time.Now
	}

	if o.Failures == nil {
		o.Failures = NewFailures(FailuresOptions{})
	}

	return &Sessions{o}
}

// Open reports whether no client is configured, so that no sign-in is needed.
func (o *Sessions) Open() bool { return o.o.Clients.None() }

// Session is one that is good.
type Session struct {
	Caller
	// Host and Audience narrow it further, where it came from a link.
	Host, Audience string
	// Link is the id of that link; empty = it was signed in to.
	Link string
	// Label and Resend are those of the link.
	Label   string
	Resend  bool
	ID      string
	Expires time.Time

	csrf string
}

// Anonymous reports whether it is one of a service without clients that narrows
// nothing.
func (s *Session) Anonymous() bool { return s.Name == "" && s.Link == "" }

// CSRF is the token that a request for a change must carry: it shows that the
// request comes from a page that the session was shown.
func (s *Session) CSRF() string { return s.csrf }

// Confirms reports whether a token is the session's.
func (s *Session) Confirms(token string) bool {
	return s.csrf != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.csrf)) == 1
}

// facts is the signed content of a session or link.
type facts struct {
	ID       string `json:"id"`
	Client   string `json:"c,omitempty"`
	Ends     int64  `json:"x"` // Unix seconds
	Link     string `json:"l,omitempty"`
	Prefix   string `json:"p,omitempty"` // of a link
	Host     string `json:"h,omitempty"`
	Audience string `json:"a,omitempty"`
	Label    string `json:"n,omitempty"`
	Resend   bool   `json:"r,omitempty"`
}

func (f *facts) expires() time.Time { return time.Unix(f.Ends, 0) }

// maxText is far above the length of a cookie or a link.
const maxText = 2048

var encoding = base64.RawURLEncoding.Strict()

// key of a client's sessions or links: it changes with the client's token.
func (o *Sessions) key(ctx context.Context, p wire.Purpose, client string) ([]byte, Caller, error) {
	who, sum, ok := o.o.Clients.Named(client)
	switch {
	case ok:
	case client == "" && o.Open():
		who = Local()
	default:
		return nil, who, ErrNoSession
	}

	derived, err := o.o.Keys.Derive(ctx, p)
	if err != nil {
		return nil, who, err
	}

	key, err := hkdf.Expand(sha256.New, derived, "client "+client+"\n"+string(sum[:]), sha256.Size)
	return key, who, err
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text)) // it never fails
	return h.Sum(nil)
}

// sign makes the text of a cookie or a link.
func sign(key []byte, f facts) string {
	raw, _ := json.Marshal(f) // it never fails
	text := encoding.EncodeToString(raw)
	return text + "." + encoding.EncodeToString(mac(key, text))
}

// verify is the inverse: ErrNone, if it was not signed with the client's key of
// that purpose, or has ended.
func (o *Sessions) verify(ctx context.Context, p wire.Purpose, signed string) (f facts, key []byte, who Caller, err error) {
	text, given, ok := strings.Cut(signed, ".")
	raw, err := encoding.DecodeString(text)
	sum, serr := encoding.DecodeString(given)
	if !ok || err != nil || serr != nil || len(signed) > maxText || json.Unmarshal(raw, &f) != nil {
		return facts{}, nil, who, ErrNoSession
	}
	if key, who, err = o.key(ctx, p, f.Client); err != nil {
		return facts{}, nil, Caller{}, err
	}
	if !hmac.Equal(sum, mac(key, text)) || f.ID == "" || !o.o.Now().Before(f.expires()) {
		return facts{}, nil, Caller{}, ErrNoSession
	}

	return f, key, who, nil
}

// SignIn opens a session for a client's token. address is the origin of the attempt:
// too many wrong tokens from one address are a *TooMany. A correct token always works.
func (o *Sessions) SignIn(ctx context.Context, token, address string) (cookie string, s *Session, err error) {
	who, ok := o.o.Clients.Find(strings.TrimSpace(token))
	if !ok {
		if wait := o.o.Failures.Add(address, ViaPages); wait > 0 {
			return "", nil, &TooMany{wait}
		}
		return "", nil, ErrToken
	}

	return o.begin(ctx, facts{Client: who.Name, Ends: o.o.Now().Add(Life).Unix()})
}

// Visit gives an anonymous session, where no client is configured.
func (o *Sessions) Visit(ctx context.Context) (cookie string, s *Session, err error) {
	if !o.Open() {
		return "", nil, ErrNoSession
	}
	return o.begin(ctx, facts{Ends: o.o.Now().Add(Life).Unix()})
}

// begin makes a session.
func (o *Sessions) begin(ctx context.Context, f facts) (string, *Session, error) {
	f.ID = rand.Text()
	key, who, err := o.key(ctx, wire.ForSessions, f.Client)
	if err != nil {
		return "", nil, err
	}

	cookie := sign(key, f)
	s, err := session(f, key, who)
	if err != nil || s.Anonymous() {
		return cookie, s, err
	}
	if err := o.o.Register.BeginSession(ctx, s.Name, s.Link, s.ID, o.left(s)); err != nil {
		return "", nil, err
	}

	return cookie, s, nil
}

// left returns how long a session is stored. The clock of another instance may be behind.
func (o *Sessions) left(s *Session) time.Duration { return s.Expires.Sub(o.o.Now()) + time.Minute }

// session returns the session of verified facts. Its rights are at most those of the client.
func session(f facts, key []byte, who Caller) (*Session, error) {
	s := &Session{Caller: who, Host: f.Host, Audience: f.Audience, Link: f.Link, ID: f.ID, Expires: f.expires(),
		csrf: encoding.EncodeToString(mac(key, "csrf "+f.ID))}
	if f.Link != "" {
		if !who.Owns(f.Prefix) {
			return nil, ErrNoSession
		}
		s.Prefix, s.Label, s.Resend, s.Role = f.Prefix, f.Label, f.Resend && who.Role.Includes(Operate), Read
	}

	return s, nil
}

// Check is the session of a cookie; ErrNone if it is none, or has ended.
func (o *Sessions) Check(ctx context.Context, cookie string) (*Session, error) {
	f, key, who, err := o.verify(ctx, wire.ForSessions, cookie)
	if err != nil {
		return nil, err
	}

	s, err := session(f, key, who)
	if err != nil {
		return nil, err
	}
	if s.Anonymous() {
		return s, nil // there is nothing to end
	}

	stands, err := o.o.Register.SessionStands(ctx, s.Name, s.Link, s.ID)
	if err != nil {
		return nil, err
	}
	if !stands {
		return nil, ErrNoSession
	}

	return s, nil
}

// End ends a session at every instance.
func (o *Sessions) End(ctx context.Context, s *Session) error {
	return o.o.Register.EndSession(ctx, s.Name, s.Link, s.ID)
}

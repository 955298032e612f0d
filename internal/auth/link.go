package auth

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"notifier/internal/wire"
)

// The bounds and the default of a link's life.
const (
	MinLink     = time.Minute
	MaxLink     = 30 * 24 * time.Hour
	DefaultLink = 8 * time.Hour
)

// LinkScope is the set of notices that a link shows: those under a prefix, optionally limited to a
// host or an audience.
type LinkScope struct {
	Prefix, Host, Audience string
	// Label is shown on the pages in place of internal names.
	Label string
	// Resend allows to resend the notices of the host.
	Resend bool
}

// MaxLinks is the maximum number of links of all clients that have neither expired nor been revoked. It is divided equally
// among the clients.
const MaxLinks = 100_000

// LinksFull means that a client has used up its share of MaxLinks.
type LinksFull struct{ Most int }

// Error implements error.
func (e *LinksFull) Error() string {
	return fmt.Sprintf("this client has %d links that have neither expired nor been revoked, its share of the maximum; revoke links, or "+
		"give them a shorter ttl", e.Most)
}

// MaxLabel is the maximum number of bytes of a label.
const MaxLabel = 100

// The maximum number of resends by the visitors of a link within a time.
const (
	MaxResends    = 10
	ResendsWithin = time.Minute
)

// Link is one that was made.
type Link struct {
	LinkScope
	ID      string
	Expires time.Time
	// Token is the secret in the URL of the link. It is not stored.
	Token string
}

// noted is the stored form of a link. It names the client that may revoke the link.
type noted struct {
	Client string `json:"client,omitempty"`
	Prefix string `json:"prefix"`
}

// idLength of a link, in characters of base32: 80 bits.
const idLength = 16

// isID reports whether a text could be the id of a link.
func isID(id string) bool {
	return len(id) == idLength && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// ErrScope says that a link would show more than its maker may see.
var ErrScope = errors.New("the link would be wider than the client that makes it")

// MakeLink makes a link for a caller, who must own the prefix. The error is a *LinksFull if the caller has used up its share.
func (o *Sessions) MakeLink(ctx context.Context, by Caller, scope LinkScope, life time.Duration) (*Link, error) {
	if !by.Owns(scope.Prefix) {
		return nil, ErrScope
	}

	key, _, err := o.key(ctx, wire.ForLinks, by.Name)
	if err != nil {
		return nil, err
	}

	f := facts{ID: rand.Text()[:idLength], Client: by.Name, Ends: o.o.Now().Add(life).Unix(), Prefix: scope.Prefix, Host: scope.Host,
		Audience: scope.Audience, Label: scope.Label, Resend: scope.Resend}
	text, _ := json.Marshal(noted{by.Name, scope.Prefix}) // it never fails
	l := &Link{LinkScope: scope, ID: f.ID, Expires: f.expires().UTC(), Token: sign(key, f)}
	return l, o.o.Register.KeepLink(ctx, by.Name, f.ID, string(text), life)
}

// Enter turns a link into the cookie of a session until the link ends; ErrLink if it
// has, and *Full if the link has MaxSessions that have not ended.
func (o *Sessions) Enter(ctx context.Context, token string) (cookie string, s *Session, err error) {
	f, _, who, err := o.verify(ctx, wire.ForLinks, token)
	if errors.Is(err, ErrNoSession) {
		return "", nil, ErrBadLink
	}
	if err != nil {
		return "", nil, err
	}

	text, err := o.o.Register.Link(ctx, f.ID)
	if err != nil {
		return "", nil, err
	}
	if text == "" || !who.Owns(f.Prefix) {
		return "", nil, ErrBadLink
	}

	f.Link = f.ID
	f.Ends = min(f.Ends, o.o.Now().Add(Life).Unix())
	return o.begin(ctx, f)
}

// RevokeLink ends a link and its sessions at every instance, and returns the link's prefix. The
// error is ErrLink if the caller does not own the prefix, and also if there is no such link.
func (o *Sessions) RevokeLink(ctx context.Context, by Caller, id string) (prefix string, err error) {
	if !isID(id) {
		return "", ErrBadLink
	}

	text, err := o.o.Register.Link(ctx, id)
	if err != nil {
		return "", err
	}

	var n noted
	if text == "" || json.Unmarshal([]byte(text), &n) != nil || !by.Owns(n.Prefix) {
		return "", ErrBadLink
	}

	return n.Prefix, o.o.Register.DropLink(ctx, n.Client, id)
}

// CountResend counts a resend by a visitor of a link. If the link has MaxResends within
// ResendsWithin, the resend is not counted, and wait is the time until the next one.
func (o *Sessions) CountResend(ctx context.Context, s *Session) (wait time.Duration, err error) {
	return o.o.Register.CountResend(ctx, s.Link)
}

// LinkPath begins the path at which a link is opened; its token follows.
const LinkPath = "/ui/portal/"

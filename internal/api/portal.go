package api

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/notice"
)

// PortalLinkRequest is the body of POST /v1/portal-links.
type PortalLinkRequest struct {
	Prefix   string       `json:"prefix" doc:"app, app:module or app:module:type: the prefix of the notices that the link shows." example:"app1:orders"`
	Host     string       `json:"host,omitempty" doc:"Only notices for this host: as in their url, without scheme, port and path." example:"shop.example"`
	Audience string       `json:"audience,omitempty" doc:"Only notices for this audience." example:"m17"`
	Label    string       `json:"label,omitempty" doc:"The merchant's name on the pages; at most 100 bytes." example:"Shop Blue"`
	Resend   bool         `json:"resend,omitempty" doc:"Allow visitors to resend delivered and dead notices of the host, 10 a minute for all visitors of the link. Needs host."`
	TTL      *codec.Delay `json:"ttl,omitempty" doc:"The validity: a Go duration, or seconds; 1m to 720h, 8h if absent."`
}

// PortalLink is a link to the pages for one merchant.
type PortalLink struct {
	ID        string      `json:"id" doc:"The id with which the link is revoked." example:"K7QF2M5X6YATBWZC"`
	URL       string      `json:"url" doc:"The link, which is stored nowhere. Every holder may open it. Its host is that of this call."`
	Prefix    string      `json:"prefix"`
	Host      string      `json:"host,omitempty" doc:"In lower case, punycode, without final dot."`
	Audience  string      `json:"audience,omitempty"`
	Label     string      `json:"label,omitempty"`
	Resend    bool        `json:"resend,omitempty" doc:"Visitors may resend notices of the host."`
	ExpiresAt codec.Stamp `json:"expires_at"`
	Warning   string      `json:"warning,omitempty" doc:"A scope that may be wider than intended."`
}

// PortalRevoked answers DELETE /v1/portal-links/{id}.
type PortalRevoked struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked" doc:"true."`
}

// portalLink serves POST /v1/portal-links.
func (a *api) portalLink(w http.ResponseWriter, r *http.Request, at site) error {
	var q PortalLinkRequest
	var f codec.Faults
	if err := readObject(w, r, &q, &f); err != nil {
		return err
	}

	scope := auth.LinkScope{Prefix: q.Prefix, Audience: q.Audience, Host: hostMember(q.Host, &f), Label: q.Label, Resend: q.Resend}
	checkLabel(q.Label, &f)
	if q.Resend && q.Host == "" {
		f.Add("body.resend", true, "needs host: a link resends notices of one host only")
	}

	if scope.Audience != "" {
		if err := notice.CheckAudience(scope.Audience); err != nil {
			f.AddErr("body.audience", nil, err)
		}
	}

	life := auth.DefaultLink
	if q.TTL != nil {
		life = q.TTL.Span
	}

	if life < auth.MinLink || life > auth.MaxLink {
		f.Add("body.ttl", notice.Short(life), "want a duration from %s to %s", notice.Short(auth.MinLink), notice.Short(auth.MaxLink))
	}

	if err := keys.CheckPrefix(scope.Prefix); scope.Prefix == "" {
		f.Add("body.prefix", nil, "is missing; want app, app:module or app:module:type")
	} else if err != nil {
		f.Add("body.prefix", codec.Clip(scope.Prefix, 100), "%s", codec.Clip(err.Error(), 200))
	}

	if p := refusal(f); p != nil {
		return p
	}

	return a.makeLink(w, r, at, scope, life)
}

// checkLabel adds the fault of a label that a page cannot show in one line.
func checkLabel(label string, f *codec.Faults) {
	shown := func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
	if len(label) > auth.MaxLabel || strings.TrimSpace(label) != label ||
		strings.ContainsFunc(label, func(r rune) bool { return !shown(r) }) {
		f.Add("body.label", codec.Clip(label, 100), "want at most %d bytes of printable text without spaces around it", auth.MaxLabel)
	}
}

func (a *api) makeLink(w http.ResponseWriter, r *http.Request, at site, scope auth.LinkScope, life time.Duration) error {
	link, err := a.sessions.MakeLink(r.Context(), at.Caller, scope, life)
	var full *auth.LinksFull
	if errors.As(err, &full) {
		return problem(http.StatusConflict, "%v: DELETE /v1/portal-links/{id}", full)
	}
	if errors.Is(err, auth.ErrScope) {
		return problem(http.StatusForbidden, "this client may only create links for keys under %s", at.Prefix)
	}
	if err != nil {
		return err
	}

	detail := "link " + link.ID
	if scope.Host != "" {
		detail += ", of host " + scope.Host
	}

	if scope.Audience != "" {
		detail += ", of audience " + scope.Audience
	}

	if scope.Resend {
		detail += ", with resend"
	}

	a.operated(r, at, audit.Entry{Action: audit.PortalLink, Prefix: scope.Prefix, Detail: detail + ", until " +
		link.Expires.Format(time.RFC3339)}, nil)
	to := url.URL{Scheme: "http", Host: r.Host, Path: auth.LinkPath + link.Token}
	if auth.OriginOf(r).Secure {
		to.Scheme = "https"
	}

	out := PortalLink{ID: link.ID, URL: to.String(), Prefix: scope.Prefix, Host: scope.Host, Audience: scope.Audience,
		Label: scope.Label, Resend: scope.Resend, ExpiresAt: codec.Stamp(link.Expires)}
	switch {
	case a.clients.None():
		out.Warning = "no client is configured, so every visitor of the service sees all notices without this link"
	case scope.Host == "" && scope.Audience == "":
		out.Warning = "it shows all notices under " + scope.Prefix + "; add a host or an audience if they belong to several merchants"
	}

	return writeJSON(w, http.StatusCreated, out)
}

// revokeLink serves DELETE /v1/portal-links/{id}.
func (a *api) revokeLink(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}

	prefix, err := a.sessions.RevokeLink(r.Context(), at.Caller, at.param)
	if errors.Is(err, auth.ErrBadLink) {
		return problem(http.StatusNotFound, "no link has this id: it has expired, was revoked, or never existed")
	}

	if prefix != "" {
		a.operated(r, at, audit.Entry{Action: audit.PortalRevoke, Prefix: prefix, Detail: "link " + at.param}, err)
	}

	if err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, PortalRevoked{ID: at.param, Revoked: true})
}

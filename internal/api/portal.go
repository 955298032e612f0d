package api

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/remote"
	"notifier/internal/session"
)

// PortalLinkRequest is the body of POST /v1/portal-links.
type PortalLinkRequest struct {
	Prefix   string       `json:"prefix" doc:"app, app:module or app:module:type: the notices that the link shows." example:"app1:orders"`
	Host     string       `json:"host,omitempty" doc:"Of them only those that go to this host: as in their url, without scheme, port and path." example:"shop.example"`
	Audience string       `json:"audience,omitempty" doc:"Of them only those that are for this audience." example:"m17"`
	TTL      *codec.Delay `json:"ttl,omitempty" doc:"How long it is good: a Go duration, or seconds; 1m to 720h, 8h if absent."`
}

// PortalLink is a link to the pages for one merchant.
type PortalLink struct {
	ID        string      `json:"id" doc:"By which it can be revoked." example:"K7QF2M5X6YATBWZC"`
	URL       string      `json:"url" doc:"The link. Whoever has it sees what it shows; it is kept nowhere. Its host is the one that this call was made to."`
	Prefix    string      `json:"prefix"`
	Host      string      `json:"host,omitempty" doc:"In lower case, punycode, without final dot."`
	Audience  string      `json:"audience,omitempty"`
	ExpiresAt codec.Stamp `json:"expires_at"`
	Warning   string      `json:"warning,omitempty" doc:"If it shows more than may be meant."`
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
	scope := session.LinkScope{Prefix: q.Prefix, Audience: q.Audience, Host: hostMember(q.Host, &f)}
	if scope.Audience != "" {
		if err := notice.CheckAudience(scope.Audience); err != nil {
			f.AddErr("body.audience", nil, err)
		}
	}
	life := session.DefaultLink
	if q.TTL != nil {
		life = q.TTL.Span
	}
	if life < session.MinLink || life > session.MaxLink {
		f.Add("body.ttl", notice.Short(life), "want a duration from %s to %s", notice.Short(session.MinLink), notice.Short(session.MaxLink))
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

func (a *api) makeLink(w http.ResponseWriter, r *http.Request, at site, scope session.LinkScope, life time.Duration) error {
	link, err := a.sessions.MakeLink(r.Context(), at.Caller, scope, life)
	if errors.Is(err, session.ErrScope) {
		return problem(http.StatusForbidden, "this client may only make links for keys under %s", at.Prefix)
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
	a.operated(r, at, audit.Entry{Action: audit.PortalLink, Prefix: scope.Prefix, Detail: detail + ", until " +
		link.Expires.Format(time.RFC3339)}, nil)
	to := url.URL{Scheme: "http", Host: r.Host, Path: session.LinkPath + link.Token}
	if remote.Of(r).Secure {
		to.Scheme = "https"
	}
	out := PortalLink{ID: link.ID, URL: to.String(), Prefix: scope.Prefix, Host: scope.Host, Audience: scope.Audience,
		ExpiresAt: codec.Stamp(link.Expires)}
	switch {
	case a.clients.None():
		out.Warning = "no client is configured, so whoever reaches the service sees everything without this link"
	case scope.Host == "" && scope.Audience == "":
		out.Warning = "it shows all notices under " + scope.Prefix + "; give a host or an audience, if those are several merchants'"
	}
	return writeJSON(w, http.StatusCreated, out)
}

// revokeLink serves DELETE /v1/portal-links/{id}.
func (a *api) revokeLink(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}
	prefix, err := a.sessions.RevokeLink(r.Context(), at.Caller, at.param)
	if errors.Is(err, session.ErrLink) {
		return problem(http.StatusNotFound, "no link has this id: it has ended, was revoked, or was never made")
	}
	if prefix != "" {
		a.operated(r, at, audit.Entry{Action: audit.PortalRevoke, Prefix: prefix, Detail: "link " + at.param}, err)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, PortalRevoked{ID: at.param, Revoked: true})
}

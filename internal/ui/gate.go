package ui

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/access"
	"notifier/internal/audit"
	"notifier/internal/remote"
	"notifier/internal/session"
)

// Where people come in and go.
const (
	signInPath  = Root + "sign-in"
	signOutPath = Root + "sign-out"
	openedPath  = Root + "opened"
	// linkPath is what a link for a merchant shows first.
	linkPath = Root + "notices"
)

const cookieName = "notifier_session"

// linkCookieName is the cookie of a link that was opened, until its session begins, or for as
// long as linkCookieFor.
const (
	linkCookieName = "notifier_link"
	linkCookieFor  = 10 * time.Minute
)

// maxForm is the longest form that is read, in bytes.
const maxForm = 64 << 10

// errSignIn is the error of a page whose visitor has to sign in first.
var errSignIn = errors.New("sign in first")

// gate serves what lets people in and out.
func (p *Pages) gate() {
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + signInPath:                   p.showSignIn,
		"POST " + signInPath:                  p.signIn,
		"POST " + signOutPath:                 p.signOut,
		"GET " + session.LinkPath + "{token}": p.openLink,
		"GET " + openedPath:                   p.showOpened,
		"POST " + openedPath:                  p.openHere,
	} {
		p.mux.handle(access.Public, pattern, func(w http.ResponseWriter, r *http.Request) {
			err := p.local(r)
			if err == nil {
				err = h(w, r)
			}
			if err != nil {
				p.fail(w, r, Visitor{}, err)
			}
		})
	}
}

// local refuses, where nobody need sign in, what a web page could have a browser
// on this machine send: a page that had its own name resolve to an address of
// this machine sends that name as Host.
func (p *Pages) local(r *http.Request) error {
	if !p.o.Sessions.Open() {
		return nil
	}
	if !p.o.Loopback {
		return failure{http.StatusForbidden, "No client is configured, so nobody is let in from other machines; set NOTIFIER_CLIENTS."}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || p.o.Host != "" && strings.EqualFold(host, p.o.Host) {
		return nil
	}
	return failure{http.StatusMisdirectedRequest, "Without clients, pages are shown under localhost or an IP address only, not under this name."}
}

// admit finds out who makes a request: errSignIn, if that is to be found out yet.
func (p *Pages) admit(w http.ResponseWriter, r *http.Request) (Visitor, error) {
	if err := p.local(r); err != nil {
		return Visitor{}, err
	}
	s, err := p.session(r)
	switch {
	case err == nil:
		return visitor(s), nil
	case p.o.Sessions.Open():
		// Whoever comes may do everything; what is missing without a session is the
		// token against forged requests, so that nothing is changed without one.
		if s = nil; reads(r) && errors.Is(err, session.ErrNone) {
			s = p.visit(w, r)
		}
		return visitor(s), nil
	case errors.Is(err, session.ErrNone):
		return Visitor{}, errSignIn
	}
	return Visitor{}, p.unchecked(err)
}

// stands reports whether who was let in is so still: a page that goes on, as a
// stream does, asks it now and then.
func (p *Pages) stands(r *http.Request, v Visitor) bool {
	if !v.SignedIn {
		return true
	}
	s, err := p.session(r)
	return err == nil && s.ID == v.session.ID
}

// session is that of a request's cookie; of several, which may be of another
// service on this host, the first one that is good.
func (p *Pages) session(r *http.Request) (*session.Session, error) {
	const most = 4
	for i, c := range r.CookiesNamed(cookieName) {
		if i == most {
			break
		}
		if s, err := p.o.Sessions.Check(r.Context(), c.Value); !errors.Is(err, session.ErrNone) {
			return s, err
		}
	}
	return nil, session.ErrNone
}

// visit gives an anonymous session; nil if that is not possible now.
func (p *Pages) visit(w http.ResponseWriter, r *http.Request) *session.Session {
	cookie, s, err := p.o.Sessions.Visit(r.Context())
	if err != nil {
		return nil
	}
	p.setCookie(w, r, cookie, s)
	return s
}

// unchecked is what somebody is told whom it is not known of whether to let in.
func (p *Pages) unchecked(err error) error {
	if !errors.Is(err, context.Canceled) {
		p.log.Warn("who may see the pages could not be checked", zap.Error(err))
	}
	return failure{http.StatusServiceUnavailable, "Your sign-in cannot be checked because Redis is unavailable. Try again."}
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// confirm checks that a request for a change comes from one of the visitor's own
// pages.
func (p *Pages) confirm(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if err := p.sameSite(r); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token := r.Header.Get("X-CSRF-Token")
	if token == "" {
		token = r.PostFormValue("csrf")
	}
	if v.session == nil || !v.session.Confirms(token) {
		return failure{http.StatusForbidden, "This form was not made for your sign-in, or that has ended meanwhile; nothing was changed. Load the page again."}
	}
	return nil
}

// sameSite refuses what pages of other sites send. Pages that send no referrer
// have the Origin "null" in their forms: where a browser does not say what site
// that is, the token of the form decides alone.
func (p *Pages) sameSite(r *http.Request) error {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		return nil
	}
	if p.crossSite.Check(r) != nil {
		return failure{http.StatusForbidden, "This request comes from a page of another site; nothing was changed."}
	}
	return nil
}

func (p *Pages) setCookie(w http.ResponseWriter, r *http.Request, value string, s *session.Session) {
	c := cookie(r, cookieName, value)
	c.Expires, c.MaxAge = s.Expires, max(int(s.Expires.Sub(p.now()).Seconds()), 1)
	http.SetCookie(w, c)
}

func dropCookie(w http.ResponseWriter, r *http.Request, name string) {
	c := cookie(r, name, "")
	c.MaxAge = -1
	http.SetCookie(w, c)
}

func cookie(r *http.Request, name, value string) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: Root, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: remote.Of(r).Secure}
}

// sendToSignIn answers who has to sign in first.
func (p *Pages) sendToSignIn(w http.ResponseWriter, r *http.Request) {
	back := r.URL.RequestURI()
	switch {
	case strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
	case r.Method == http.MethodGet && fromElsewhere(r):
		// The browser has kept the cookie back, if there is one, because a page of
		// another site leads here; what this page leads to gets it.
		p.onward(w, r, back)
	default:
		to := signInPath
		if reads(r) && back != Root {
			to += "?to=" + url.QueryEscape(back)
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// fromElsewhere reports whether a browser follows a link from a page of another
// site, so that it brings no cookie.
func fromElsewhere(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && len(r.CookiesNamed(cookieName)) == 0
}

// onward answers with a page that leads on to one of the pages.
func (p *Pages) onward(w http.ResponseWriter, r *http.Request, to string) {
	if err := p.render(w, r, http.StatusOK, view{Template: "onward", Title: "One moment", Bare: true, Refresh: to}); err != nil {
		p.fail(w, r, Visitor{}, err)
	}
}

// within is where to go after signing in: one of the pages, or the first.
func within(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, Root) || strings.ContainsAny(to, "\\\r\n\t") {
		return Root
	}
	return to
}

// signInForm is what the page for signing in shows.
type signInForm struct{ To, Wrong string }

func (p *Pages) renderSignIn(w http.ResponseWriter, r *http.Request, status int, f signInForm) error {
	return p.render(w, r, status, view{Template: "signin", Title: "Sign in", Bare: true, Data: f})
}

// showSignIn serves GET /ui/sign-in.
func (p *Pages) showSignIn(w http.ResponseWriter, r *http.Request) error {
	to := within(r.URL.Query().Get("to"))
	if _, err := p.session(r); p.o.Sessions.Open() || err == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
	return p.renderSignIn(w, r, http.StatusOK, signInForm{To: to})
}

// signIn serves POST /ui/sign-in.
func (p *Pages) signIn(w http.ResponseWriter, r *http.Request) error {
	if err := p.sameSite(r); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token, to := r.PostFormValue("token"), within(r.PostFormValue("to"))
	if p.o.Sessions.Open() {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
	value, s, err := p.o.Sessions.SignIn(r.Context(), token, remote.Of(r).Address)
	var tooMany *session.TooMany
	switch {
	case errors.As(err, &tooMany):
		wait := strconv.Itoa(tooMany.Seconds())
		w.Header().Set("Retry-After", wait)
		return p.renderSignIn(w, r, http.StatusTooManyRequests, signInForm{to, "Too many attempts from this address. Try again in " + wait + " s."})
	case errors.Is(err, session.ErrToken):
		return p.renderSignIn(w, r, http.StatusUnauthorized, signInForm{to, "Invalid token."})
	case err != nil:
		return p.unchecked(err)
	}
	p.entered(r, audit.SignIn, s)
	p.setCookie(w, r, value, s)
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// signOut serves POST /ui/sign-out.
func (p *Pages) signOut(w http.ResponseWriter, r *http.Request) error {
	v, err := p.admit(w, r)
	if err != nil {
		return err
	}
	if err := p.confirm(w, r, v); err != nil {
		return err
	}
	if v.SignedIn {
		if err := p.o.Sessions.End(r.Context(), v.session); err != nil {
			return p.unchecked(err)
		}
		if v.session.Link == "" { // whoever has a link could fill the audit of its maker
			p.entered(r, audit.SignOut, v.session)
		}
	}
	dropCookie(w, r, cookieName)
	http.Redirect(w, r, signInPath, http.StatusSeeOther)
	return nil
}

// entered keeps who came in or went.
func (p *Pages) entered(r *http.Request, action audit.Action, s *session.Session) {
	p.trail.Note(r.Context(), audit.Entry{Action: action, Prefix: s.Prefix, Result: audit.Done, Client: s.Name, Address: remote.Of(r).Address, Via: audit.Pages})
}

// openLink serves GET /ui/portal/{token}: a link for a merchant becomes a cookie and an
// address that holds nothing. A redirection is in no history. The cookie is not the session's
// yet: a browser that comes from another site keeps its session back, which showOpened sees.
func (p *Pages) openLink(w http.ResponseWriter, r *http.Request) error {
	value, _, err := p.o.Sessions.Enter(r.Context(), r.PathValue("token"))
	var full *session.Full
	switch {
	case errors.As(err, &full):
		wait := strconv.Itoa(full.Seconds())
		w.Header().Set("Retry-After", wait)
		return failure{http.StatusTooManyRequests, "This link has been opened too often by people who did not sign out. Sign out where you opened it, or try again in " + wait + " s."}
	case errors.Is(err, session.ErrLink):
		return failure{http.StatusForbidden, "This link has ended, or was never made. Ask who gave it to you for a new one."}
	case err != nil:
		return p.unchecked(err)
	}
	c := cookie(r, linkCookieName, value)
	c.MaxAge = int(linkCookieFor.Seconds())
	http.SetCookie(w, c)
	http.Redirect(w, r, openedPath, http.StatusSeeOther)
	return nil
}

// linked is the session of the link that was opened last, with its cookie's value; nil = none.
func (p *Pages) linked(r *http.Request) (value string, s *session.Session, err error) {
	c, err := r.Cookie(linkCookieName)
	if err != nil {
		return "", nil, nil
	}
	s, err = p.o.Sessions.Check(r.Context(), c.Value)
	switch {
	case errors.Is(err, session.ErrNone):
		return "", nil, nil
	case err != nil:
		return "", nil, p.unchecked(err)
	}
	return c.Value, s, nil
}

// replaced is the session that a link's would replace; nil = none. A session of the same link
// may be replaced.
func (p *Pages) replaced(r *http.Request, by *session.Session) (*session.Session, error) {
	s, err := p.session(r)
	switch {
	case errors.Is(err, session.ErrNone):
		return nil, nil
	case err != nil:
		return nil, p.unchecked(err)
	case s.Anonymous() || s.Link != "" && s.Link == by.Link:
		return nil, nil
	}
	return s, nil
}

// openedPage asks before a link's session takes the place of another one.
type openedPage struct {
	Client string // of the session that there is; empty = it is of a link
	Prefix string // of the link
	CSRF   string
}

// showOpened serves GET /ui/opened: the link's session begins, or the page asks, if somebody is
// signed in here.
func (p *Pages) showOpened(w http.ResponseWriter, r *http.Request) error {
	value, s, err := p.linked(r)
	if err != nil {
		return err
	}
	if s == nil {
		if r.URL.Query().Has("again") { // the browser kept no cookie, or the link has ended
			http.Redirect(w, r, linkPath, http.StatusSeeOther)
			return nil
		}
		// The browser comes from another site and brings no cookie; what this page leads to gets it.
		p.onward(w, r, openedPath+"?again")
		return nil
	}
	now, err := p.replaced(r, s)
	if err != nil {
		return err
	}
	if now == nil {
		p.enter(w, r, value, s)
		return nil
	}
	data := openedPage{Prefix: s.Prefix, CSRF: now.CSRF()}
	if now.Link == "" {
		data.Client = now.Name
	}
	return p.render(w, r, http.StatusOK, view{Template: "opened", Title: "Open this link?", Bare: true, Data: data})
}

// openHere serves POST /ui/opened, the answer to that page.
func (p *Pages) openHere(w http.ResponseWriter, r *http.Request) error {
	if err := p.sameSite(r); err != nil {
		return err
	}
	value, s, err := p.linked(r)
	if err != nil {
		return err
	}
	if s == nil {
		return failure{http.StatusForbidden, "The link has ended, or was opened too long ago; you are signed in as before. Open it again."}
	}
	now, err := p.replaced(r, s)
	if err != nil {
		return err
	}
	if now != nil {
		if err := p.confirm(w, r, visitor(now)); err != nil {
			return err
		}
	}
	p.enter(w, r, value, s)
	return nil
}

// enter begins the session of a link.
func (p *Pages) enter(w http.ResponseWriter, r *http.Request, value string, s *session.Session) {
	dropCookie(w, r, linkCookieName)
	p.setCookie(w, r, value, s)
	http.Redirect(w, r, linkPath, http.StatusSeeOther)
}

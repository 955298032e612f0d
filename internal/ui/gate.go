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

	"notifier/internal/audit"
	"notifier/internal/auth"
)

// The addresses of signing in and out.
const (
	signInPath  = Root + "sign-in"
	signOutPath = Root + "sign-out"
	openedPath  = Root + "opened"
	// linkPath is the first page of a portal link.
	linkPath = Root + "notices"
)

const cookieName = "notifier_session"

// linkCookieName is the cookie of a link that was opened, until its session begins, or for as
// long as linkCookieFor.
const (
	linkCookieName = "notifier_link"
	linkCookieFor  = 10 * time.Minute
)

// maxForm is the maximum size of a form in bytes.
const maxForm = 64 << 10

// errSignIn is the error of a page that needs a sign-in.
var errSignIn = errors.New("sign in first")

// gate serves the pages of signing in and out.
func (p *Pages) gate() {
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + signInPath:                p.showSignIn,
		"POST " + signInPath:               p.signIn,
		"POST " + signOutPath:              p.signOut,
		"GET " + auth.LinkPath + "{token}": p.openLink,
		"GET " + openedPath:                p.showOpened,
		"POST " + openedPath:               p.openHere,
	} {
		p.mux.handle(auth.Public, pattern, func(w http.ResponseWriter, r *http.Request) {
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

// local protects a service without clients from other web pages. Such a page could resolve its own name to
// an address of this machine; the browser then sends that name as Host.
func (p *Pages) local(r *http.Request) error {
	if !p.o.Sessions.Open() {
		return nil
	}
	if !p.o.Loopback {
		return failure{http.StatusForbidden, say("Without clients, only this machine may open the pages. Set `NOTIFIER_CLIENTS`.")}
	}

	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}

	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || p.o.Host != "" && strings.EqualFold(host, p.o.Host) {
		return nil
	}

	return failure{http.StatusMisdirectedRequest, say("Without clients, the pages are served under localhost or an IP address only, not " +
		"under this name.")}
}

// admit returns the visitor of a request; errSignIn without a session.
func (p *Pages) admit(w http.ResponseWriter, r *http.Request) (Visitor, error) {
	if err := p.local(r); err != nil {
		return Visitor{}, err
	}

	s, err := p.session(r)
	switch {
	case err == nil:
		return visitor(s), nil
	case p.o.Sessions.Open():
		// Every visitor may do everything. An anonymous session carries the token against
		// forged requests, which changes require.
		if s = nil; reads(r) && errors.Is(err, auth.ErrNoSession) {
			s = p.visit(w, r)
		}
		return visitor(s), nil
	case errors.Is(err, auth.ErrNoSession):
		return Visitor{}, errSignIn
	}

	return Visitor{}, p.unchecked(err)
}

// stillSignedIn reports whether a visitor is still signed in. Streams check it from time to time.
func (p *Pages) stillSignedIn(r *http.Request, v Visitor) bool {
	if !v.SignedIn {
		return true
	}

	s, err := p.session(r)
	return err == nil && s.ID == v.session.ID
}

// session returns the session of a request. Several services on one host may set the cookie, so the first
// valid one counts.
func (p *Pages) session(r *http.Request) (*auth.Session, error) {
	const most = 4
	for i, c := range r.CookiesNamed(cookieName) {
		if i == most {
			break
		}
		if s, err := p.o.Sessions.Check(r.Context(), c.Value); !errors.Is(err, auth.ErrNoSession) {
			return s, err
		}
	}

	return nil, auth.ErrNoSession
}

// visit creates an anonymous session; nil if that fails.
func (p *Pages) visit(w http.ResponseWriter, r *http.Request) *auth.Session {
	cookie, s, err := p.o.Sessions.Visit(r.Context())
	if err != nil {
		return nil
	}

	p.setCookie(w, r, cookie, s)
	return s
}

// unchecked is the failure if a session cannot be checked.
func (p *Pages) unchecked(err error) error {
	if !errors.Is(err, context.Canceled) {
		p.log.Warn("cannot check a session of the pages", zap.Error(err))
	}
	return failure{http.StatusServiceUnavailable, say("Your sign-in cannot be checked because Redis is unavailable. Try again.")}
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// confirm checks that a change comes from one of the visitor's own pages.
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
		return failure{http.StatusForbidden, say("This form belongs to another sign-in, or yours has ended. Nothing was changed. Reload the " +
			"page.")}
	}

	return nil
}

// sameSite refuses requests of pages of other sites. Pages without a referrer send the Origin "null" in
// their forms. If the browser does not name the site, only the token of the form decides.
func (p *Pages) sameSite(r *http.Request) error {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		return nil
	}
	if p.crossSite.Check(r) != nil {
		return failure{http.StatusForbidden, say("The request comes from a page of another site. Nothing was changed.")}
	}

	return nil
}

func (p *Pages) setCookie(w http.ResponseWriter, r *http.Request, value string, s *auth.Session) {
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
	return &http.Cookie{Name: name, Value: value, Path: Root, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: auth.OriginOf(r).Secure}
}

// sendToSignIn leads a visitor without a session to the page for signing in.
func (p *Pages) sendToSignIn(w http.ResponseWriter, r *http.Request) {
	back := r.URL.RequestURI()
	switch {
	case strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		http.Error(w, languageOf(r).plain(say("Sign in first.")), http.StatusUnauthorized)
	case r.Method == http.MethodGet && fromElsewhere(r):
		// The browser withholds the cookie because a page of another site leads here. It
		// sends the cookie with the next page.
		p.onward(w, r, back)
	default:
		to := signInPath
		if reads(r) && back != Root {
			to += "?to=" + url.QueryEscape(back)
		}

		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// fromElsewhere reports whether the browser follows a link of another site and therefore withholds the
// cookie.
func fromElsewhere(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		len(r.CookiesNamed(cookieName)) == 0
}

// onward answers with a page that leads to one of the pages.
func (p *Pages) onward(w http.ResponseWriter, r *http.Request, to string) {
	if err := p.render(w, r, http.StatusOK, view{Title: say("One moment"), Bare: true, Refresh: to, Content: onwardContent(to)}); err != nil {
		p.fail(w, r, Visitor{}, err)
	}
}

// within returns the page to open after signing in; the first page if to is no page.
func within(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, Root) || strings.ContainsAny(to, "\\\r\n\t") {
		return Root
	}

	return to
}

// signInForm is the data of the page for signing in.
type signInForm struct {
	To    string
	Wrong text
}

func (p *Pages) renderSignIn(w http.ResponseWriter, r *http.Request, status int, f signInForm) error {
	return p.render(w, r, status, view{Title: say("Sign in"), Bare: true, Content: signInContent(f)})
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

	value, s, err := p.o.Sessions.SignIn(r.Context(), token, auth.OriginOf(r).Address)
	var tooMany *auth.TooMany
	switch {
	case errors.As(err, &tooMany):
		wait := strconv.Itoa(tooMany.Seconds())
		w.Header().Set("Retry-After", wait)
		return p.renderSignIn(w, r, http.StatusTooManyRequests, signInForm{to,
			say("Too many attempts from this address. Try again in %s s.", wait)})
	case errors.Is(err, auth.ErrToken):
		return p.renderSignIn(w, r, http.StatusUnauthorized, signInForm{to, say("Invalid token.")})
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
		if v.session.Link == "" { // visitors with a link could fill the audit of its creator
			p.entered(r, audit.SignOut, v.session)
		}
	}

	dropCookie(w, r, cookieName)
	http.Redirect(w, r, signInPath, http.StatusSeeOther)
	return nil
}

// entered adds a sign-in or sign-out to the audit.
func (p *Pages) entered(r *http.Request, action audit.Action, s *auth.Session) {
	p.trail.Note(r.Context(), audit.Entry{Action: action, Prefix: s.Prefix, Result: audit.Done, Client: s.Name,
		Address: auth.OriginOf(r).Address, Via: audit.Pages})
}

// openLink serves GET /ui/portal/{token}, the address of a portal link. It stores a session for the link in a cookie
// and redirects to [Pages.showOpened], which asks the visitor before it replaces another session.
func (p *Pages) openLink(w http.ResponseWriter, r *http.Request) error {
	// The redirect keeps the token out of the browser's history. Another session cannot be checked here: if the
	// link was opened from another site, the browser does not send the session cookie.
	value, _, err := p.o.Sessions.Enter(r.Context(), r.PathValue("token"))
	var full *auth.SessionsFull
	switch {
	case errors.As(err, &full):
		wait := strconv.Itoa(full.Seconds())
		w.Header().Set("Retry-After", wait)
		return failure{http.StatusTooManyRequests, say("This link is open in too many browsers. Sign out in one of them, or try again in %s s.",
			wait)}
	case errors.Is(err, auth.ErrBadLink):
		return failure{http.StatusForbidden, say("This link is invalid or has expired. Ask the sender for a new one.")}
	case err != nil:
		return p.unchecked(err)
	}

	c := cookie(r, linkCookieName, value)
	c.MaxAge = int(linkCookieFor.Seconds())
	http.SetCookie(w, c)
	http.Redirect(w, r, openedPath, http.StatusSeeOther)
	return nil
}

// linked returns the session of the link that was opened last, and the value of its cookie; nil without
// one.
func (p *Pages) linked(r *http.Request) (value string, s *auth.Session, err error) {
	c, err := r.Cookie(linkCookieName)
	if err != nil {
		return "", nil, nil
	}

	s, err = p.o.Sessions.Check(r.Context(), c.Value)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		return "", nil, nil
	case err != nil:
		return "", nil, p.unchecked(err)
	}

	return c.Value, s, nil
}

// replaced returns the session that the session of a link would replace; nil if there is none, or if it is
// of the same link.
func (p *Pages) replaced(r *http.Request, by *auth.Session) (*auth.Session, error) {
	s, err := p.session(r)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		return nil, nil
	case err != nil:
		return nil, p.unchecked(err)
	case s.Anonymous() || s.Link != "" && s.Link == by.Link:
		return nil, nil
	}

	return s, nil
}

// openedPage asks before the session of a link replaces another one.
type openedPage struct {
	Client string // of the session that there is; empty = it is of a link
	Prefix string // of the link, as Label and Resend
	Label  string
	Resend bool
	CSRF   string
}

// showOpened serves GET /ui/opened. It starts the session of the link, or asks first if the browser has
// another session.
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

		// The browser comes from another site and withholds the cookie. It sends the cookie with the next page.
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

	data := openedPage{Prefix: s.Prefix, Label: s.Label, Resend: s.Resend, CSRF: now.CSRF()}
	if now.Link == "" {
		data.Client = now.Name
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Open this link?"), Bare: true, Content: openedContent(data)})
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
		return failure{http.StatusForbidden, say("The link has expired, or was opened too long ago. Your sign-in has not changed. Open the " +
			"link again.")}
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

// enter starts the session of a link.
func (p *Pages) enter(w http.ResponseWriter, r *http.Request, value string, s *auth.Session) {
	dropCookie(w, r, linkCookieName)
	p.setCookie(w, r, value, s)
	http.Redirect(w, r, linkPath, http.StatusSeeOther)
}

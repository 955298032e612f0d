package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/codec"
)

// admit finds out who calls.
func (a *api) admit(r *http.Request) (caller, *Problem) {
	if a.clients.None() {
		return a.admitLocal(r)
	}

	refused := problem(http.StatusUnauthorized, "want the header Authorization: Bearer <token> with the token of a configured client").
		with("WWW-Authenticate", `Bearer realm="notifier"`)
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return caller{}, refused
	}

	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return caller{}, refused
	}

	who, ok := a.clients.Find(strings.TrimSpace(token))
	if ok {
		return caller{who}, nil
	}

	if wait := a.failures.Add(auth.OriginOf(r).Address, auth.ViaAPI); wait > 0 {
		seconds := int((wait + time.Second - 1) / time.Second)
		return caller{}, problem(http.StatusTooManyRequests,
			"too many requests with a wrong token from this address; correct tokens are not limited").
			with("Retry-After", strconv.Itoa(seconds))
	}

	return caller{}, refused
}

// admitLocal admits a request to an API without configured clients. It refuses requests unless the API listens on a
// loopback address. It also refuses two attacks of web pages in a browser on the same machine:
//   - DNS rebinding: the page makes its own host name resolve to 127.0.0.1, so the Host header has that name.
//   - Cross-site requests that change something: the browser marks them in the header Sec-Fetch-Site or Origin.
func (a *api) admitLocal(r *http.Request) (caller, *Problem) {
	if !a.loopback {
		return caller{}, problem(http.StatusUnauthorized,
			"no client is configured, so calls from other machines are refused; set NOTIFIER_CLIENTS").
			with("WWW-Authenticate", `Bearer realm="notifier"`)
	}

	if !auth.IsLoopback(r.Host) {
		return caller{}, problem(http.StatusMisdirectedRequest,
			"without clients only requests to localhost, 127.0.0.1 or [::1] are answered; this one names %q", codec.Clip(r.Host, 100))
	}

	if err := a.crossSite.Check(r); err != nil {
		return caller{}, problem(http.StatusForbidden, "without clients no requests from web pages of other sites are answered")
	}

	return caller{auth.Local()}, nil
}

package api

import (
	"errors"
	"net/http"
	"strings"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/vault"
)

// OpenRequest is the body of POST /v1/open.
type OpenRequest struct {
	Key    string `json:"key" doc:"The key of the notice." maxLength:"323"`
	Sealed string `json:"sealed" doc:"The sealed text, as the entry of a list or stream has it in sealed." example:"s1c:…"`
}

// OpenAnswer answers POST /v1/open.
type OpenAnswer struct {
	Key         string            `json:"key"`
	URL         codec.URL         `json:"url,omitempty" doc:"The url without its password, if the sealed text has it."`
	ContentType codec.ContentType `json:"content_type,omitempty" doc:"application/json if the body is JSON. The content_type of the entry takes precedence."`
	Headers     codec.Headers     `json:"headers,omitempty" doc:"The headers without those in headers_withheld."`
	Withheld    []string          `json:"headers_withheld,omitempty" doc:"Names of headers with secret values, which are not shown."`
	codec.Payload
}

// open serves POST /v1/open.
func (a *api) open(w http.ResponseWriter, r *http.Request, at site) error {
	if err := noQuery(r); err != nil {
		return err
	}

	data, err := readBody(w, r, a.maxBatch)
	if err != nil {
		return err
	}

	var q OpenRequest
	var f codec.Faults
	if err := codec.Read(data, "body.", &q, &f); err != nil {
		return notJSON(err)
	}

	at.call.key = q.Key
	if err := a.checkOpen(at, &q, f); err != nil {
		return err
	}

	c, err := a.opener.OpenText(r.Context(), q.Key, q.Sealed)
	if err != nil {
		return unopened(err)
	}

	if at.Role.Includes(auth.Operate) { // the consumers of a list are not audited, as their reports are not
		at.call.opened = append(at.call.opened, q.Key)
	}

	n := &notice.Notice{Key: q.Key, Content: c}
	inline := c.InlineJSON()
	v := contentOf(n, inline)
	return answerObject(w, http.StatusOK, &OpenAnswer{Key: q.Key, URL: v.URL, ContentType: v.ContentType, Headers: v.Headers,
		Withheld: v.Withheld, Payload: payloadOf(n, inline)})
}

const wantSealed = "want the sealed text of an entry: s1c:…"

// checkOpen checks a request to open a text. A client of the role produce opens only texts of lists and streams, which it consumes.
func (a *api) checkOpen(at site, q *OpenRequest, f codec.Faults) error {
	_, err := keys.Parse(q.Key)
	switch text, bad := seal.ParseText(q.Sealed); {
	case len(f) > 0:
	case err != nil:
		f.AddErr("body.key", codec.Clip(q.Key, 100), err)
	case bad != nil || !text.Kind.HasContent():
		f.Add("body.sealed", codec.Clip(q.Sealed, 60), wantSealed)
	}

	if p := refusal(f); p != nil {
		return p
	}

	if !at.Covers(q.Key) {
		return problem(http.StatusForbidden, "this client may only open texts of keys under %s:", at.Prefix)
	}

	to := a.routes.Match(q.Key)
	if consumed := to != nil && (to.Target.Kind == route.KindList || to.Target.Kind == route.KindStream); !consumed &&
		!at.Role.Includes(auth.Operate) {
		return problem(http.StatusForbidden, "client %s has the role %s, which opens texts of lists and streams only; this key needs %s", at.Name,
			at.Role, auth.Operate)
	}

	if a.opener == nil {
		return errNoOpener
	}

	return nil
}

// errNoOpener is returned by a service whose engine does not seal.
var errNoOpener = problem(http.StatusServiceUnavailable, "this instance has no service keys (NOTIFIER_SEAL_KEYS)").with("Retry-After", "5")

// unopened returns the problem that answers an error of opening a text.
func unopened(err error) error {
	var missing *vault.MissingKeyError
	switch at := vault.ForgottenAt(err); {
	case !at.IsZero():
		return problem(http.StatusGone, "the audience or id that seals the text was forgotten on %s: its content is gone", notice.Stamp(at))
	case errors.Is(err, vault.ErrUnknownKey):
		return problem(http.StatusUnprocessableEntity, "Redis has no key for this text: it is of another service or another notice, or Redis "+
			"has lost the key")
	case errors.As(err, &missing):
		return problem(http.StatusServiceUnavailable, "this instance does not have the service key %s (NOTIFIER_SEAL_KEYS), or has "+
			"another key of that name. Repeat the call", codec.Clip(missing.Name, 100)).with("Retry-After", "5")
	case errors.Is(err, seal.ErrForeign), errors.Is(err, seal.ErrFormat):
		return problem(http.StatusUnprocessableEntity, "the text does not open: it was changed, or is of another notice than key")
	}

	return err
}

// noteOpened adds to the audit that the answer of a call has the content of sealed notices.
func (a *api) noteOpened(r *http.Request, call *calling) {
	e := audit.Entry{Client: call.Name, Address: auth.OriginOf(r).Address, Via: audit.API}
	switch len(call.opened) {
	case 0:
		return
	case 1:
		e.Key = call.opened[0]
	default:
		e.Prefix, e.Detail = commonPrefix(call.opened), "in a listing"
	}

	a.trail.Opened(r.Context(), e)
}

// commonPrefix returns the longest prefix in whole segments that all keys have; it may be empty.
func commonPrefix(all []string) string {
	common := strings.Split(all[0], ":")
	common = common[:len(common)-1]
	for _, key := range all[1:] {
		n := 0
		for i, s := range strings.Split(key, ":") {
			if i == len(common) || common[i] != s {
				break
			}

			n++
		}

		common = common[:n]
	}

	return strings.Join(common, ":")
}

package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"notifier/internal/auth"
	"notifier/internal/codec"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// view shows a notice without its body. by is the client that scheduled it; inline reports whether its body is JSON that
// may be part of another JSON text.
func (a *api) view(f *store.Found, by string, inline bool) codec.Notice {
	n := f.Notice
	v := codec.Notice{
		Key: n.Key, ID: n.ID(), Route: n.Route, State: f.State, Due: codec.Stamp(n.Due), Attempt: coming(f), AttemptsMade: n.AttemptsMade,
		Content: contentOf(n, inline), Ending: f.Ending(), EndedBefore: n.Endings, Replay: n.Replay, Redirect: n.Redirect, Resend: n.Resend,
		ResentAfter: n.Resent, Client: by, CreatedAt: codec.Stamp(n.Made.Time()), SettledAt: codec.Stamp(f.SettledAt), Reason: string(n.Reason),
		NextAttempt: codec.Stamp(f.NextAttemptAt()), Waits: f.Waits, Attempts: n.Attempts,
	}

	r := a.routes.Prefix(n.Route)
	if r != nil {
		v.Route = r.Name
	}

	v.MaxAttempts = r.MaxAttempts(n)
	return v
}

// contentOf shows a notice's content without the secrets in it.
func contentOf(n *notice.Notice, inline bool) codec.Content {
	v := codec.Content{URL: codec.URL(redacted(n.URL)), URLSealed: n.URLSealed, Audience: codec.Audience(n.Audience), Method: n.Method,
		ContentType: codec.ContentType(n.ContentType), Retry: codec.Ladder(n.Ladder),
		Expires: codec.Stamp(n.Expires), Tick: codec.Stamp(n.Tick)}
	if n.ExpiresAfter > 0 {
		v.ExpiresAfter = &codec.Delay{Span: n.ExpiresAfter}
	}

	if n.ContentType == "" && inline {
		v.ContentType = "application/json"
	}

	if before := n.ScheduledURL(); before != n.URL {
		v.ScheduledURL = notice.PublicAddress(before)
	}

	for _, h := range n.Headers {
		if notice.SecretName(h.Name) {
			v.Withheld = append(v.Withheld, h.Name)
		} else {
			v.Headers = append(v.Headers, h)
		}
	}

	return v
}

// payloadOf shows a notice's body.
func payloadOf(n *notice.Notice, inline bool) codec.Payload {
	switch {
	case len(n.Raw) > 0: // all that is known of it
		return codec.Payload{BodyBase64: n.Raw}
	case inline && !hiddenText(n.Body):
		return codec.Payload{Body: n.Body}
	default:
		return codec.Payload{BodyBase64: n.Body}
	}
}

// coming returns the number of the coming attempt, or 0 for a finalized notice.
func coming(f *store.Found) int {
	if f.State != notice.Scheduled && f.State != notice.Claimed {
		return 0
	}
	return f.NextAttempt()
}

// millis are milliseconds with their decimals, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// redacted takes the password out of an address.
func redacted(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return u.Redacted()
	}

	return address
}

// whole shows a notice with its body.
func (a *api) whole(f *store.Found, by string) codec.Notice {
	inline := f.InlineJSON()
	v := a.view(f, by, inline)
	v.Payload = payloadOf(f.Notice, inline)
	return v
}

// settledOf shows a notice that is no longer kept.
func settledOf(n *notice.Notice) SettledNotice {
	return SettledNotice{Key: n.Key, ID: n.ID(), State: notice.Settled}
}

// answerObject answers with a struct, given as a pointer.
func answerObject(w http.ResponseWriter, status int, object any) error {
	return writeRaw(w, status, "application/json", append(codec.Append(nil, object), '\n'))
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	return writeRaw(w, status, "application/json", append(codec.AppendAny(nil, v), '\n'))
}

// writeRaw answers, with JSON that is safe to print on a terminal. An error of the connection is not handled: the
// caller has gone.
func writeRaw(w http.ResponseWriter, status int, contentType string, data []byte) error {
	if strings.Contains(contentType, "json") {
		data = escapeHidden(data)
	}

	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
	return nil
}

// wholeFor is whole with the key of the notice that a parked one waits for, if it is in the caller's scope.
func (a *api) wholeFor(ctx context.Context, at site, f *store.Found) codec.Notice {
	opened := a.openedAt(ctx, at, f)
	v := waitsFor(a.whole(&opened, a.scheduledBy(ctx, at.caller, f.Notice)), at.caller, f)
	v.Sealed, v.ForgottenAt = f.Sealed != "", codec.Stamp(opened.Forgotten)
	return v
}

// openedAt is opened for a call, which the audit then names. Some calls show sealed notices as they are.
func (a *api) openedAt(ctx context.Context, at site, f *store.Found) store.Found {
	if at.sealed {
		return *f
	}

	x := a.opened(ctx, at.caller, f)
	if x.Notice != f.Notice {
		at.call.opened = append(at.call.opened, f.Key)
	}

	return x
}

// opened returns a notice opened, if it is sealed and the caller may read it. Every caller gets the time of a forget.
func (a *api) opened(ctx context.Context, c caller, f *store.Found) store.Found {
	x := *f
	switch {
	case a.opener == nil:
	case c.Role.Includes(auth.Operate):
		a.opener.Open(ctx, &x)
	default:
		a.opener.FindForgotten(ctx, &x)
	}

	return x
}

// waitsFor adds to the view of f the key of the notice that it waits for, if it is in the caller's scope.
func waitsFor(v codec.Notice, c caller, f *store.Found) codec.Notice {
	if f.WaitsFor != "" && c.Covers(f.WaitsFor) {
		v.WaitsFor = f.WaitsFor
	}
	return v
}

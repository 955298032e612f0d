package ui

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/callback"
	"notifier/internal/history"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Only the functions of this file show the content of notices.

// mostShown is the maximum size of a body on a page.
const mostShown = 32 << 10

// shownBody is a body on a page.
type shownBody struct {
	Text string
	Type string // of its content
	Kind text
	Size int // in bytes; negative = unknown, because the body is sealed
	Cut  bool
}

// body returns the body of a notice, formatted if it is JSON.
func (p *Pages) body(f *store.Found) shownBody {
	raw := f.Body
	if len(f.Raw) > 0 {
		raw = f.Raw // the record cannot be read
	}

	out := shownBody{Size: len(raw)}
	content, ok := p.view(f), true
	switch {
	case len(f.Raw) == 0:
		raw, ok = content.Body()
	case !p.o.Mask.None(): // an unreadable record has no paths to mask
		raw, ok = nil, false
	}

	var laid bytes.Buffer
	switch {
	case !f.Forgotten.IsZero():
		out.Kind, out.Size = say("forgotten on %s", p.stamp(f.Forgotten).UTC), -1
		return out
	case f.Sealed != "":
		out.Kind, out.Size = say("sealed"), -1
		return out
	case !ok:
		out.Kind = say("masked")
		return out
	case len(raw) == 0:
		out.Kind = say("empty")
		return out
	case len(raw) <= 1<<20 && json.Indent(&laid, raw, "", "  ") == nil:
		out.Kind, out.Text = say("JSON, formatted"), laid.String()
	case utf8.Valid(raw):
		out.Kind, out.Text = say("text"), string(raw)
	default:
		out.Kind, out.Text = say("binary, as base64"), base64.StdEncoding.EncodeToString(raw[:min(len(raw), mostShown)])
	}

	out.Type = content.Text(f.EffectiveType())
	if out.Cut = len(out.Text) > mostShown; out.Cut {
		out.Text = strings.ToValidUTF8(out.Text[:mostShown], "")
	}

	return out
}

// reveal opens a sealed notice, if the visitor may read it, and reports whether it did. Every visitor gets the time of a forget.
func (p *Pages) reveal(ctx context.Context, v Visitor, f *store.Found) bool {
	o, ok := p.o.Engine.(api.Opener)
	if !ok {
		return false
	}

	if !v.May(auth.Operate) {
		o.FindForgotten(ctx, f)
		return false
	}

	before := f.Notice
	o.Open(ctx, f)
	return f.Notice != before
}

// noteOpened adds to the audit that a visitor was shown the content of sealed notices: of e.Key, or of several under e.Prefix.
func (p *Pages) noteOpened(r *http.Request, v Visitor, e audit.Entry) {
	e.Client, e.Address, e.Via = v.Client, auth.OriginOf(r).Address, audit.Pages
	p.trail.Opened(r.Context(), e)
}

// view returns the content of a notice with the masking rules.
func (p *Pages) view(f *store.Found) *mask.View { return p.o.Mask.Notice(f.Notice) }

// address returns the url of a notice, without the values of parameters that are named like secrets,
// whatever the masking rules are.
func address(content *mask.View) string {
	shown, _ := content.URL()
	if shown == "" {
		return ""
	}

	return callback.RedactURL(shown)
}

// scheduledAddress returns the url of the schedule call without its query, and only its host if bodies are hidden; empty
// if the url was not changed.
func (p *Pages) scheduledAddress(f *store.Found) string {
	before := f.ScheduledURL()
	switch {
	case before == f.URL:
		return ""
	case p.o.Mask.All():
		return history.HostOf(before)
	}

	return notice.PublicAddress(before)
}

// headers returns headers, without the values of those that are named like secrets, whatever the masking
// rules are.
func headers(list []notice.Header, content *mask.View) []notice.Header {
	out := slices.Clone(list)
	for i := range out {
		if out[i].Value, _ = content.Header(out[i].Name, out[i].Value); notice.SecretName(out[i].Name) {
			out[i].Value = mask.Hidden
		}
	}

	return out
}

// clean replaces characters of a rendered page that change the direction of text or are invisible.
// Escaping does not remove them. Without such characters, the page is returned unchanged.
func clean(page []byte) []byte {
	if bytes.IndexFunc(page, notice.Invisible) < 0 {
		return page
	}
	return bytes.Map(func(r rune) rune {
		if notice.Invisible(r) {
			return unicode.ReplacementChar
		}
		return r
	}, page)
}

// Package queue hands due notices to Redis lists and streams.
//
// The handler does not push: it says what is to be pushed, and the settle does
// it, in the same script that ends the claim. So an entry is there exactly if
// its notice is settled. In a cluster the list may lie in another slot than the
// notice; then the push comes first and the settle after it, and a crash
// between the two doubles the entry, never loses it.
package queue

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// Handler makes the entries. Push, if not nil, is called to push at once, for
// targets that lie in another slot.
type Handler struct {
	// Push is store.Store's Push in a cluster, nil otherwise.
	Push func(ctx context.Context, p *notice.Push) error
}

// Handle makes the entry of one attempt.
func (h *Handler) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	p := &notice.Push{Key: r.Target.Key}
	if r.Target.Kind == route.KindStream {
		p.Stream, p.MaxLen, p.Entry = true, r.Target.MaxLen, Fields(n)
	} else {
		p.Entry = []string{string(Envelope(n))}
	}
	res := notice.Result{Outcome: notice.OutcomeDelivered, Push: p}
	if h.Push != nil {
		if err := h.Push(ctx, p); err != nil {
			return notice.RetryResult(notice.ReasonQueue, err.Error())
		}
		res.Push.Entry = nil // it is done
	}
	return res
}

// Envelope is a list's element: {"id","key","attempt","due","content_type",
// "body"}. The body stands byte for byte as it is when it is JSON, as a string
// when it is text of another type, and under "body_base64" otherwise.
func Envelope(n *notice.Notice) []byte {
	e := struct {
		ID         string          `json:"id"`
		Key        string          `json:"key"`
		Attempt    int             `json:"attempt"`
		Due        string          `json:"due"`
		Type       string          `json:"content_type,omitempty"`
		Body       json.RawMessage `json:"body,omitempty"`
		BodyBase64 string          `json:"body_base64,omitempty"`
		Lost       bool            `json:"body_lost,omitempty"`
	}{ID: n.ID(), Key: n.Key, Attempt: n.Coming(), Due: notice.Stamp(n.Due), Type: n.EffectiveType(), Lost: n.Lost}
	switch {
	case len(n.Body) == 0:
	case n.EffectiveType() == "application/json" && n.InlineJSON():
		// Marshal would write it anew: without blanks, < and > escaped.
		b, _ := json.Marshal(e)
		b = append(append(b[:len(b)-1], `,"body":`...), n.Body...)
		return append(b, '}')
	case utf8.Valid(n.Body) && e.Type != "application/json":
		e.Body, _ = json.Marshal(string(n.Body))
	default:
		e.BodyBase64 = base64.StdEncoding.EncodeToString(n.Body)
	}
	b, _ := json.Marshal(e)
	return b
}

// Fields are a stream's entry: the same facts, the body byte for byte.
func Fields(n *notice.Notice) []string {
	f := []string{"id", n.ID(), "key", n.Key, "attempt", strconv.Itoa(n.Coming()), "due", notice.Stamp(n.Due),
		"content_type", n.EffectiveType(), "body", string(n.Body)}
	if n.Lost {
		f = append(f, "body_lost", "1")
	}
	return f
}

// Report is how long a consumer's own deferral lasts when it names no time.
const Report = 5 * time.Second

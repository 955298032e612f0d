package callback

import (
	"net/http"
	"slices"
	"strings"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/tracing"
)

// Copy returns the request that the next attempt of n would send, to show it to developers who watch a route (package
// tracing). For a route that only logs its notices, Copy returns the HTTP request that would deliver the notice. The
// headers of the route, headers with secret names and signatures are left out, and secrets in the url are hidden.
func (h *Handler) Copy(r *route.Route, n *notice.Notice) *tracing.Copy {
	out := &tracing.Copy{Key: n.Key, Route: r.Name, ID: n.ID(), Attempt: n.NextAttempt(), Target: r.Target.Kind, Method: methodOf(r, n)}
	s := r.Signing()
	out.Standard, out.Schemes = s.Has(sign.Standard), schemes(s)
	switch {
	case n.URL != "":
		out.URL = RedactURL(n.URL)
	case r.Target.URL != nil:
		out.URL = redact(r.Target.Shown())
	}

	typ := n.EffectiveType()
	if out.Method == http.MethodGet {
		out.Query, _ = notice.Query(n.Body, typ) // an attempt with an error is not sent, and has no copy
		out.Size, typ = len(out.Query), ""
		if out.Cut = out.Size > tracing.MaxBody; out.Cut {
			out.Query = out.Query[:tracing.MaxBody]
		}
	} else {
		out.SetBody(n.Body)
	}

	var c call
	c.setHeaders(slices.DeleteFunc(slices.Clone(n.Headers), func(x notice.Header) bool { return notice.SecretName(x.Name) }), r)
	if typ != "" {
		c.set("content-type", typ)
	}

	c.setNotice(n)
	c.set("webhook-id", out.ID)
	c.set("User-Agent", h.opts.UserAgent)
	for _, f := range c.Fields {
		out.Headers = append(out.Headers, notice.Header{Name: strings.ToLower(f.Name), Value: f.Value})
	}

	return out
}

func schemes(s *sign.Settings) string {
	names := make([]string, len(s.Schemes))
	for i, scheme := range s.Schemes {
		names[i] = string(scheme)
	}

	return strings.Join(names, ", ")
}

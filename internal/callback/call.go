package callback

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/sign"
	"notifier/internal/tracing"
	"notifier/internal/transport"
)

// call is the request of one attempt.
type call struct {
	transport.Request             // its fields are sorted by name; names are unique without regard to case
	to                destination // where the request goes, see setAddress
	query             string      // of a GET: the query of the address and the content
	texts             []sign.Text // the signed texts, if the request is shown to a user
}

// set adds a header at its sorted position, or replaces an existing one.
func (c *call) set(name, value string) {
	i := len(c.Fields)
	for i > 0 {
		order := foldCompare(c.Fields[i-1].Name, name)
		if order == 0 {
			c.Fields[i-1] = transport.Field{Name: name, Value: value}
			return
		}

		if order < 0 {
			break
		}

		i--
	}

	c.Fields = slices.Insert(c.Fields, i, transport.Field{Name: name, Value: value})
}

// foldCompare compares two header names without regard to case.
func foldCompare(a, b string) int {
	for i := range min(len(a), len(b)) {
		if x, y := lower(a[i]), lower(b[i]); x != y {
			return cmp.Compare(x, y)
		}
	}

	return cmp.Compare(len(a), len(b))
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}

// setTrace sets the trace context to the attempt's span, if the attempt is traced.
func (c *call) setTrace(ctx context.Context) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return
	}

	c.set("traceparent", tracing.Traceparent(span))
	if state := span.TraceState().String(); state != "" {
		c.set("tracestate", state)
	} else {
		c.remove("tracestate")
	}
}

func (c *call) remove(name string) {
	c.Fields = slices.DeleteFunc(c.Fields, func(f transport.Field) bool { return strings.EqualFold(f.Name, name) })
}

func (c *call) has(name string) bool {
	return slices.ContainsFunc(c.Fields, func(f transport.Field) bool { return strings.EqualFold(f.Name, name) })
}

// setAddress makes the request one to the call's destination, with the query of a GET.
func (c *call) setAddress() {
	c.Origin, c.Host, c.URL, c.URI = c.to.origin, c.to.hostHeader, c.to.call, c.to.uri
	if c.Method == http.MethodGet {
		u := *c.to.call
		u.RawQuery = c.query
		c.URL, c.URI = &u, ""
	}
}

package callback

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/sign"
	"notifier/internal/tracing"
)

// field is one header of a request.
type field struct{ name, value string }

// call is the request of one attempt.
type call struct {
	method string
	to     destination
	query  string // of a GET: the query of the address and the content
	agent  string
	fields []field // sorted by name; names are unique without regard to case, and sent in this spelling
	proxy  *proxy  // gets the request and makes the call; nil: none
	body   []byte
	texts  []sign.Text // the signed texts, if the request is shown to a user
}

// set adds a header at its sorted position, or replaces an existing one.
func (c *call) set(name, value string) {
	i := len(c.fields)
	for i > 0 {
		order := foldCompare(c.fields[i-1].name, name)
		if order == 0 {
			c.fields[i-1] = field{name, value}
			return
		}

		if order < 0 {
			break
		}

		i--
	}

	c.fields = slices.Insert(c.fields, i, field{name, value})
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
	c.fields = slices.DeleteFunc(c.fields, func(f field) bool { return strings.EqualFold(f.name, name) })
}

func (c *call) has(name string) bool {
	return slices.ContainsFunc(c.fields, func(f field) bool { return strings.EqualFold(f.name, name) })
}

// url returns the address to call, with the query of a GET.
func (c *call) url() *url.URL {
	if c.method != http.MethodGet {
		return c.to.call
	}

	u := *c.to.call
	u.RawQuery = c.query
	return &u
}

// appendHead appends the request line and headers to b.
func (c *call) appendHead(b []byte) []byte {
	uri := c.to.uri
	if c.method == http.MethodGet {
		uri = c.url().RequestURI()
	}

	b = append(append(b, c.method...), ' ')
	if c.proxy != nil {
		b = append(append(b, "http://"...), c.to.hostHeader...)
	}

	b = append(b, uri...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.to.hostHeader...)
	if c.proxy != nil && c.proxy.auth != "" {
		b = append(append(b, "\r\nProxy-Authorization: "...), c.proxy.auth...)
	}

	if agent := textproto.TrimString(c.agent); agent != "" {
		b = append(append(b, "\r\nUser-Agent: "...), agent...)
	}

	if len(c.body) > 0 || c.method != http.MethodGet {
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(c.body)), 10)
	}

	for _, f := range c.fields {
		b = append(append(b, "\r\n"...), f.name...)
		b = append(append(b, ": "...), textproto.TrimString(f.value)...)
	}

	return append(b, "\r\n\r\n"...)
}

// header returns the headers in net/http's form.
func (c *call) header() http.Header {
	h := make(http.Header, len(c.fields)+1)
	values := make([]string, 0, len(c.fields)+1) // one allocation for all values
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("User-Agent", c.agent)

	for _, f := range c.fields {
		set(f.name, f.value)
	}

	return h
}

// request returns the call as a request of net/http, for HTTP/2.
func (c *call) request(ctx context.Context) *http.Request {
	req := &http.Request{Method: c.method, URL: c.url(), Host: c.to.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.header()}
	if len(c.body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(c.body))
		req.ContentLength = int64(len(c.body))
	}

	return req.WithContext(ctx)
}

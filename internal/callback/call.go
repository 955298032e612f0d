package callback

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/sign"
	"notifier/internal/tracing"
)

// field is one header of a request.
type field struct{ name, value string }

// call is the request of one attempt, whichever transport sends it. Both send the
// same bytes over HTTP/1.1.
type call struct {
	method string
	to     destination
	query  string // a GET's, with that of the address
	agent  string
	fields []field // by name, one of each
	body   []byte
	texts  []sign.Text // that were signed, if they are to be shown
}

// set puts a header in its place, over one of the same name.
func (c *call) set(name, value string) {
	i := len(c.fields)
	for i > 0 && c.fields[i-1].name > name {
		i--
	}
	if i > 0 && c.fields[i-1].name == name {
		c.fields[i-1].value = value
		return
	}
	c.fields = slices.Insert(c.fields, i, field{name, value})
}

// setTrace makes the attempt's span the trace context, if there is one.
func (c *call) setTrace(ctx context.Context) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return
	}
	c.set("Traceparent", tracing.Traceparent(span))
	if state := span.TraceState().String(); state != "" {
		c.set("Tracestate", state)
	} else {
		c.remove("Tracestate")
	}
}

func (c *call) remove(name string) {
	c.fields = slices.DeleteFunc(c.fields, func(f field) bool { return f.name == name })
}

func (c *call) has(name string) bool {
	return slices.ContainsFunc(c.fields, func(f field) bool { return f.name == name })
}

// url is what is called.
func (c *call) url() *url.URL {
	if c.method != http.MethodGet {
		return c.to.call
	}
	u := *c.to.call
	u.RawQuery = c.query
	return &u
}

// appendHead spells the head of the request as net/http does.
func (c *call) appendHead(b []byte) []byte {
	uri := c.to.uri
	if c.method == http.MethodGet {
		uri = c.url().RequestURI()
	}
	b = append(append(append(b, c.method...), ' '), uri...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.to.hostHeader...)
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

// header is what the call's headers are to net/http.
func (c *call) header() http.Header {
	h := make(http.Header, len(c.fields)+1)
	values := make([]string, 0, len(c.fields)+1) // one allocation for all the values
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

// request is the call for net/http.
func (c *call) request(ctx context.Context) *http.Request {
	req := &http.Request{Method: c.method, URL: c.url(), Host: c.to.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: c.header()}
	switch {
	case len(c.body) > 0:
		req.Body = io.NopCloser(bytes.NewReader(c.body))
		req.ContentLength = int64(len(c.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
	case c.method == http.MethodGet:
		req.Body = empty{}
	default:
		req.Body = http.NoBody
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
	}
	return req.WithContext(ctx)
}

// empty is a body without a byte. net/http repeats a GET by itself if its body is
// nil or http.NoBody, even one that the receiver has read whole.
type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }
func (empty) Close() error             { return nil }

package transport

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"time"
)

// Limits of one attempt, for receivers that refuse requests or close connections. Without them one attempt sent 7,160
// requests to a receiver that answers each connection with GOAWAY.
const (
	// MaxRequests is the maximum number of requests that [Pool.Do] sends with the same [Progress].
	MaxRequests    = 2
	maxConnections = 3
)

const (
	// MaxBody is the maximum number of bytes that are read of an answer's body.
	MaxBody = 64 << 10
	// MaxHead is the maximum size of an answer's head in bytes, the heads of 1xx answers included.
	MaxHead = 64 << 10
	// bodyDrain is the time limit for reading the body of an exchange with StatusOnly.
	bodyDrain = 2 * time.Second
)

// Exchange is one request and its answer. The caller must not use it again after [Pool.Do].
type Exchange struct {
	Request  *Request
	Progress *Progress
	// Deadline is the end of the whole exchange; zero = none.
	Deadline time.Time
	// StatusOnly means that the caller needs no body. It is read for at most two seconds, so that the connection can be
	// kept.
	StatusOnly bool
	// Observe makes Progress record the address and the TLS state of the connection.
	Observe bool
	// Repeats may forbid to send a request again; nil = only MaxRequests limits that.
	Repeats Limiter
	// Answer is set by [Pool.Do]. Its Status is 0 after an error.
	Answer Answer

	proxy *Proxy // receives the request and makes the call; nil: none
}

// Limiter limits requests that are sent again.
type Limiter interface {
	// MayRepeat waits until the request may be sent again, or returns false.
	MayRepeat(ctx context.Context) bool
}

// Answer is the answer to a request.
type Answer struct {
	Status  int
	Proto   string // of the answer, as in "HTTP/1.1"
	Header  http.Header
	Body    []byte // at most MaxBody
	More    bool   // the body was longer
	BodyErr error  // why the body is incomplete
	// Expired means that the deadline of the exchange has passed.
	Expired bool
	// Forwarded means that a proxy has made the call and may have answered by itself.
	Forwarded bool
}

// Origin is the destination of connections. Requests with the same origin may share a connection.
type Origin struct {
	Addr   string // host:port, as net.JoinHostPort returns it
	Secure bool   // TLS
}

// serverName returns the name that the server's certificate must be valid for.
func (o Origin) serverName() string {
	host, _, _ := net.SplitHostPort(o.Addr) // cannot fail: Addr was made by JoinHostPort
	return host
}

// Field is one header of a request.
type Field struct{ Name, Value string }

// Request is one request. The caller checks that no part contains a control character: the package writes them unchanged.
type Request struct {
	Method string
	Origin Origin
	// URL is the address to call. URI is its path and query; empty = those of URL.
	URL *url.URL
	URI string
	// Host is the Host header.
	Host      string
	UserAgent string // empty = no header
	// Fields are the other headers. HTTP/1.1 sends them in this order and spelling. Content-Length is not among them.
	Fields []Field
	Body   []byte
}

// appendHead appends the request line and headers to b. proxy, unless nil, is the proxy that makes the call.
func (r *Request) appendHead(b []byte, proxy *Proxy) []byte {
	uri := r.URI
	if uri == "" {
		uri = r.URL.RequestURI()
	}

	b = append(append(b, r.Method...), ' ')
	if proxy != nil {
		b = append(append(b, "http://"...), r.Host...)
	}

	b = append(b, uri...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), r.Host...)
	if proxy != nil && proxy.auth != "" {
		b = append(append(b, "\r\nProxy-Authorization: "...), proxy.auth...)
	}

	if agent := textproto.TrimString(r.UserAgent); agent != "" {
		b = append(append(b, "\r\nUser-Agent: "...), agent...)
	}

	if len(r.Body) > 0 || r.Method != http.MethodGet {
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(r.Body)), 10)
	}

	for _, f := range r.Fields {
		b = append(append(b, "\r\n"...), f.Name...)
		b = append(append(b, ": "...), textproto.TrimString(f.Value)...)
	}

	return append(b, "\r\n\r\n"...)
}

// Header returns the headers in net/http's form.
func (r *Request) Header() http.Header {
	h := make(http.Header, len(r.Fields)+1)
	values := make([]string, 0, len(r.Fields)+1) // one allocation for all values
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("User-Agent", r.UserAgent)

	for _, f := range r.Fields {
		set(f.Name, f.Value)
	}

	return h
}

// request returns the request in net/http's form, for HTTP/2.
func (r *Request) request(ctx context.Context) *http.Request {
	req := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Header()}
	if len(r.Body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(r.Body))
		req.ContentLength = int64(len(r.Body))
	}

	return req.WithContext(ctx)
}

// answered records the head of the answer.
func (x *Exchange) answered(resp *http.Response) {
	x.Progress.set(StageBody)
	x.Answer.Status, x.Answer.Proto, x.Answer.Header = resp.StatusCode, resp.Proto, resp.Header
}

// readBody reads at most MaxBody of an answer, and reports whether that was all of it.
func (a *Answer) readBody(body io.Reader, length int64) (all bool) {
	size := 512
	if length > 0 {
		size = int(min(length, MaxBody)) + 1
	}

	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}

		n, err := body.Read(buf[len(buf):min(cap(buf), MaxBody+1)])
		buf = buf[:len(buf)+n]
		if len(buf) > MaxBody {
			a.Body, a.More = buf[:MaxBody], true
			return false
		}

		if err != nil {
			a.Body = buf
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return true
			}

			a.BodyErr = err
			return false
		}
	}
}

// IsTimeout reports whether an error means that a deadline has passed.
func IsTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}

	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// BasicAuth returns the Authorization header for a user and password.
func BasicAuth(u *url.Userinfo) string {
	pw, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pw))
}

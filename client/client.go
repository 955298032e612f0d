package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options is what New needs. URL is required.
type Options struct {
	URL   string // of the service, http://127.0.0.1:8080
	Token string // empty = none
	// HTTP makes the calls. Nil means one with a timeout of 60 s.
	HTTP *http.Client
	// Retries is how often a call is repeated; negative means never, 0 means 4.
	Retries int
	// Pause is the first pause between repetitions, doubled each time up to
	// 5 s. 0 means 200 ms. A Retry-After goes before it.
	Pause     time.Duration
	UserAgent string
	// OnRetry, if not nil, hears why a call is repeated, and after what pause. It may
	// be called by many goroutines at once.
	OnRetry func(err error, wait time.Duration)
}

// Client makes calls. It may be used by many goroutines at once.
type Client struct {
	base *url.URL
	opts Options
	http *http.Client
}

const (
	maxAnswer  = 256 << 20
	maxPause   = 5 * time.Second
	maxWaiting = 30 * time.Second // the longest Retry-After that is waited for
)

// New checks the options.
func New(o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimSuffix(o.URL, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("the service's address cannot be read; want one such as http://127.0.0.1:8080")
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the service's address holds a user or a query; a token is given on its own")
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("the token holds white space or a control character")
	}
	c := &Client{base: u, opts: o, http: o.HTTP}
	if c.http == nil {
		t := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second,
			ForceAttemptHTTP2: true}
		c.http = &http.Client{Timeout: 60 * time.Second, Transport: t}
	}
	switch {
	case o.Retries == 0:
		c.opts.Retries = 4
	case o.Retries < 0:
		c.opts.Retries = 0
	}
	if o.Pause <= 0 {
		c.opts.Pause = 200 * time.Millisecond
	}
	return c, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Problem is an answer that says what is wrong: RFC 9457.
type Problem struct {
	// Type names the kind of problem, where it has a name. Of a 503, unconfirmed: it is
	// stored, and not as durable yet as the service is set to answer for; the same
	// call is to be made again. Of a 503, moved: notices are being moved to another
	// Redis, and nothing was changed; the same call is to be made again, there at last.
	Type    string   `json:"type,omitempty"`
	Title   string   `json:"title"`
	Status  int      `json:"status"` // the HTTP status
	Detail  string   `json:"detail"`
	State   string   `json:"state,omitempty"`   // of a 409: the state the notice is in
	Differs []string `json:"differs,omitempty"` // of a duplicate's 409: the fields that differ
	Errors  []Wrong  `json:"errors,omitempty"`  // of a 422: each field that is wrong

	RetryAfter time.Duration `json:"-"` // the least time to wait, if the answer said one
}

// Wrong is one field that is wrong.
type Wrong struct {
	Location string `json:"location"` // body.key, query.limit
	Message  string `json:"message"`
}

func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if len(p.Errors) == 0 && p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for i, e := range p.Errors {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + strings.TrimPrefix(e.Location, "body.") + " " + e.Message)
	}
	return b.String()
}

// IsStatus reports whether err is a problem of that status.
func IsStatus(err error, status int) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == status
}

// request is one call.
type request struct {
	method string
	path   []string // segments behind /v1, unescaped
	query  url.Values
	body   []byte
	accept string
	ctype  string
	// again: made twice it comes to the same as made once.
	again bool
	// asItIs: an answer of this status is no error, whatever it is.
	asItIs int
}

// do makes a call, repeats it as it may, and returns the answer's bytes.
func (c *Client) do(ctx context.Context, r request) (status int, raw []byte, err error) {
	pause := c.opts.Pause
	for try := 0; ; try++ {
		status, raw, err = c.once(ctx, r)
		if err == nil || try >= c.opts.Retries || ctx.Err() != nil || !repeatable(r, err) {
			return status, raw, err
		}
		wait := pause/2 + rand.N(pause/2+1)
		var p *Problem
		if errors.As(err, &p) && p.RetryAfter > wait {
			wait = p.RetryAfter
		}
		if wait > maxWaiting {
			return status, raw, err
		}
		if c.opts.OnRetry != nil {
			c.opts.OnRetry(err, wait)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return status, raw, err
		}
		pause = min(2*pause, maxPause)
	}
}

// repeatable reports whether another try is right. Whatever never left this
// machine may be repeated; what may have arrived, only if that does no harm.
func repeatable(r request, err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusInsufficientStorage:
			return p.Status == http.StatusTooManyRequests // full stays full
		case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
			return r.again
		}
		return false
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	var broken *transport
	return r.again && errors.As(err, &broken)
}

// transport is a failure to get an answer.
type transport struct{ err error }

func (t *transport) Error() string { return t.err.Error() }
func (t *transport) Unwrap() error { return t.err }

func (c *Client) once(ctx context.Context, r request) (int, []byte, error) {
	u := *c.base
	segments := make([]string, len(r.path))
	for i, s := range r.path {
		segments[i] = url.PathEscape(s)
	}
	u.RawPath = c.base.EscapedPath() + "/" + strings.Join(segments, "/")
	u.Path = c.base.Path + "/" + strings.Join(r.path, "/")
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, fmt.Errorf("make the request: %w", err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", or(r.ctype, "application/json"))
	}
	req.Header.Set("Accept", or(r.accept, "application/json")+", application/problem+json")
	req.Header.Set("User-Agent", or(c.opts.UserAgent, "notifier-client"))
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // the address is named once, below
		}
		return 0, nil, &transport{fmt.Errorf("no answer from %s: %w", c.base.Host, err)}
	}
	defer func() { _ = res.Body.Close() }() // read to its end, or given up
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil, &transport{fmt.Errorf("the answer of %s broke off: %w", c.base.Host, err)}
	}
	if res.StatusCode >= 300 && res.StatusCode != r.asItIs {
		return res.StatusCode, raw, c.problem(res, raw)
	}
	return res.StatusCode, raw, nil
}

func (c *Client) problem(res *http.Response, raw []byte) error {
	p := &Problem{}
	if json.Unmarshal(raw, p) != nil || p.Title == "" {
		// Something between here and the service has answered.
		p = &Problem{Title: http.StatusText(res.StatusCode), Detail: fmt.Sprintf("%s answered, and not in the way of this service", c.base.Host)}
	}
	p.Status = res.StatusCode
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		p.RetryAfter = time.Duration(s) * time.Second
	}
	return p
}

// into makes a call and reads its answer into out, which keeps the bytes too.
func (c *Client) into(ctx context.Context, r request, out interface{ keep([]byte) }) error {
	_, raw, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the answer of %s cannot be read: %w", c.base.Host, err)
	}
	out.keep(raw)
	return nil
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

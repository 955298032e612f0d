package client

import (
	"bytes"
	"cmp"
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

// Options are the options of New. URL is required.
type Options struct {
	URL   string // of the service, http://127.0.0.1:8080
	Token string // empty = none
	// HTTP makes the calls. Nil means a client with a timeout of 60 s.
	HTTP *http.Client
	// Retries is the maximum number of retries of a call. 0 means 4, negative means none.
	Retries int
	// Pause is the pause before the first retry. It doubles with each retry, up to 5 s. 0 means 200 ms.
	// A longer Retry-After of the service takes precedence.
	Pause     time.Duration
	UserAgent string
	// OnRetry, if not nil, is called before each retry with the error and the pause. Several goroutines
	// may call it at once.
	OnRetry func(err error, wait time.Duration)
}

// Client calls a service. It is safe for concurrent use.
type Client struct {
	base *url.URL
	opts Options
	http *http.Client
}

const (
	maxAnswer  = 256 << 20
	maxPause   = 5 * time.Second
	maxWaiting = 30 * time.Second // after a longer Retry-After a call fails
)

// New returns a client of the service at o.URL. It makes no call.
func New(o Options) (*Client, error) {
	u, err := address(o.URL)
	if err != nil {
		return nil, err
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

// address parses the URL of a service.
func address(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("the URL of the service is not valid; want one such as http://127.0.0.1:8080")
	}
	if u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the URL of the service has a user or a query; give the token separately")
	}

	return u, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Problem is an error answer of the service, as RFC 9457 defines it.
type Problem struct {
	// Type is the kind of problem, if the status alone is not enough.
	//
	//   - "unconfirmed", with 503: Redis has not confirmed the change as durably as the service requires. The change
	//     may be stored. Repeat the call.
	//   - "moved", with 503: notices are being moved to another Redis, and nothing was changed. Repeat the call later,
	//     or send it to the service of the other Redis.
	Type    string   `json:"type,omitempty"`
	Title   string   `json:"title"`
	Status  int      `json:"status"` // the HTTP status
	Detail  string   `json:"detail"`
	State   State    `json:"state,omitempty"`   // of a 409: the state of the notice
	Differs []string `json:"differs,omitempty"` // of a duplicate's 409: the fields that differ
	Errors  []Wrong  `json:"errors,omitempty"`  // of a 422: the invalid fields

	RetryAfter time.Duration `json:"-"` // of the header Retry-After; 0 = none
}

// Wrong is an invalid field of a request.
type Wrong struct {
	Location string `json:"location"` // body.key, query.limit
	Message  string `json:"message"`
}

// Error returns the status, the title, and the detail or the invalid fields.
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

// IsStatus reports whether err is a [*Problem] with that HTTP status.
func IsStatus(err error, status int) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == status
}

// request is a call of the API.
type request struct {
	method string
	path   []string // segments, unescaped
	query  url.Values
	body   []byte
	accept string
	ctype  string
	// idempotent: a repeated call has no further effect.
	idempotent bool
	// accepted is a status above 299 that is not an error.
	accepted int
}

// do makes a call with its retries, and returns the last answer.
func (c *Client) do(ctx context.Context, r request) (status int, raw []byte, err error) {
	pause := c.opts.Pause
	for try := 0; ; try++ {
		status, raw, err = c.once(ctx, r)
		if err == nil || try >= c.opts.Retries || ctx.Err() != nil || !repeatable(r, err) {
			return status, raw, err
		}

		wait := retryPause(err, pause)
		if wait > maxWaiting {
			return status, raw, err
		}

		if c.opts.OnRetry != nil {
			c.opts.OnRetry(err, wait)
		}

		if !sleep(ctx, wait) {
			return status, raw, err
		}

		pause = min(2*pause, maxPause)
	}
}

// retryPause returns the pause before a retry after err: a random time between half of pause and pause,
// or the Retry-After of the answer if that is longer.
func retryPause(err error, pause time.Duration) time.Duration {
	wait := pause/2 + rand.N(pause/2+1)
	var p *Problem
	if errors.As(err, &p) {
		wait = max(wait, p.RetryAfter)
	}

	return wait
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// repeatable reports whether a failed call may be retried. A request that was not sent may always be. A
// request that may have arrived may be if it is idempotent and the failure is temporary.
func repeatable(r request, err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		switch p.Status {
		case http.StatusTooManyRequests, http.StatusInsufficientStorage:
			return p.Status == http.StatusTooManyRequests // a full Redis stays full
		case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
			return r.idempotent
		}
		return false
	}

	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}

	var broken *transport
	return r.idempotent && errors.As(err, &broken)
}

// transport is the error of a call without an answer.
type transport struct{ err error }

func (t *transport) Error() string { return t.err.Error() }
func (t *transport) Unwrap() error { return t.err }

// once makes a call without retries.
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
		req.Header.Set("Content-Type", cmp.Or(r.ctype, "application/json"))
	}

	req.Header.Set("Accept", cmp.Or(r.accept, "application/json")+", application/problem+json")
	req.Header.Set("User-Agent", cmp.Or(c.opts.UserAgent, "notifier-client"))
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}

	res, err := c.http.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL: the error below names the host
		}

		return 0, nil, &transport{fmt.Errorf("no answer from %s: %w", c.base.Host, err)}
	}

	defer func() { _ = res.Body.Close() }()

	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, nil, &transport{fmt.Errorf("the answer of %s is incomplete: %w", c.base.Host, err)}
	}
	if res.StatusCode >= 300 && res.StatusCode != r.accepted {
		return res.StatusCode, raw, c.problem(res, raw)
	}

	return res.StatusCode, raw, nil
}

// problem decodes an error answer.
func (c *Client) problem(res *http.Response, raw []byte) error {
	p := &Problem{}
	if json.Unmarshal(raw, p) != nil || p.Title == "" {
		// A proxy, or another program, has answered.
		p = &Problem{Title: http.StatusText(res.StatusCode), Detail: fmt.Sprintf("the answer of %s is not of this service", c.base.Host)}
	}

	p.Status = res.StatusCode
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
		p.RetryAfter = time.Duration(s) * time.Second
	}

	return p
}

// send makes a call with body as JSON, and decodes its answer into out.
func (c *Client) send(ctx context.Context, r request, body any, out interface{ keep([]byte) }) (err error) {
	if r.body, err = json.Marshal(body); err != nil {
		return err
	}

	return c.into(ctx, r, out)
}

// into makes a call and decodes its answer into out, which also keeps the bytes.
func (c *Client) into(ctx context.Context, r request, out interface{ keep([]byte) }) error {
	_, raw, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("cannot decode the answer of %s: %w", c.base.Host, err)
	}

	out.keep(raw)
	return nil
}

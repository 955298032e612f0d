package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/tracing"
)

func (a *command) listen() *cobra.Command {
	l := &tapListener{command: a}
	var to string
	c := &cobra.Command{
		Use:   "listen",
		Short: "Show copies of what the service sends, and forward them to this machine",
		Long: `Streams copies of attempts while they are made, and prints a line for each. The real
delivery is not changed. With --forward-to each copy is sent to a local address, and the
line has its answer.

A copy has no real signature: listen prints a key that was made for this connection, and
copies are signed with it, if the route signs with the scheme standard. Headers of the
route, secret headers and passwords of urls are left out. Bodies are cut at 64 KiB; such
copies are not forwarded. Where the service masks bodies, copies are masked, and
--forward-to is refused.

All instances together send at most 200 copies and 1 MiB in any second; the rest is left out and
counted. The client needs the role operate. One client may have 4 connections.`,
		Example: `  notifier listen --prefix app1:trans
  notifier listen --prefix app1:trans --forward-to localhost:3000/hook
  notifier listen --print-json | jq .copy.body`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if l.to, err = forwardAddress(to); err != nil {
				return err
			}
			return l.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&l.prefix, "prefix", "", "app, app:module or app:module:type: only keys under it")
	f.StringVar(&to, "forward-to", "", "address that copies are sent to: localhost:3000/hook")
	f.BoolVar(&a.json, "print-json", false, "print one line of JSON a copy")
	return c
}

// forwardAddress reads --forward-to. Nil: it was not given.
func forwardAddress(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}

	if !strings.Contains(text, "://") {
		text = "http://" + text
	}

	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, usage("--forward-to: want an address such as localhost:3000/hook")
	}

	return u, nil
}

const (
	// tapSilence is how long the service may send nothing; it sends a comment every 15 s.
	tapSilence = 45 * time.Second
	// tapLine is the longest line of the stream.
	tapLine = 1 << 20
	// forwards is how many copies may wait until they are forwarded.
	forwards = 256
	// forwardTimeout is how long the local receiver may take.
	forwardTimeout = 30 * time.Second
)

// tapListener prints the copies of a stream.
type tapListener struct {
	*command
	prefix string
	to     *url.URL // nil: copies are not forwarded
	local  *http.Client
	lines  sync.Mutex // of the output
}

// copied is a copy, with the raw text of the service.
type copied struct {
	tracing.ShownCopy
	raw json.RawMessage
}

// forwarded is what became of a copy on this machine.
type forwarded struct {
	Status   int     `json:"status,omitempty"`
	Duration float64 `json:"duration_ms,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// errStream is what errors of a stream that can be opened again wrap.
var errStream = errors.New("the stream ended")

func (l *tapListener) run(ctx context.Context) error {
	o, err := l.apiOptions()
	if err != nil {
		return err
	}

	l.local = &http.Client{Timeout: forwardTimeout, Transport: &http.Transport{}, // no proxy: it is this machine
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer l.local.CloseIdleConnections()
	stream := &http.Client{}
	defer stream.CloseIdleConnections()

	queue := make(chan copied, forwards)
	var forwarding sync.WaitGroup
	forwarding.Go(func() {
		for c := range queue {
			l.print(c, l.forward(ctx, &c))
		}
	})
	defer forwarding.Wait()
	defer close(queue)

	again := pace.Loop{Min: time.Second, Max: 10 * time.Second}
	for {
		opened, err := l.follow(ctx, stream, o, queue)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, errStream) {
			return err
		}

		if opened {
			again.Succeed()
		}

		wait := again.Next()
		l.complain("notifier: %s; connecting again", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// follow reads one stream until it ends.
func (l *tapListener) follow(ctx context.Context, stream *http.Client, o client.Options, queue chan<- copied) (opened bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := l.connect(ctx, stream, o)
	if err != nil {
		return false, err
	}

	defer func() { _ = res.Body.Close() }() // it may not be read to its end

	silence := time.AfterFunc(tapSilence, cancel)
	defer silence.Stop()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, tapLine)
	event := ""
	for lines.Scan() {
		silence.Reset(tapSilence)
		name, data, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			event = data
		case "data":
			if err := l.take(event, []byte(data), queue); err != nil {
				return true, err
			}
		}
	}

	return true, fmt.Errorf("%w: %w", errStream, cmp.Or(lines.Err(), io.EOF))
}

// connect opens a stream.
func (l *tapListener) connect(ctx context.Context, stream *http.Client, o client.Options) (*http.Response, error) {
	address := strings.TrimSuffix(o.URL, "/") + "/v1/tap"
	if l.prefix != "" {
		address += "?prefix=" + url.QueryEscape(l.prefix)
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}

	req.Header.Set("Accept", "text/event-stream, application/problem+json")
	req.Header.Set("User-Agent", o.UserAgent)
	if o.Token != "" {
		req.Header.Set("Authorization", "Bearer "+o.Token)
	}

	res, err := stream.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}

		return nil, fmt.Errorf("%w: no answer: %w", errStream, err)
	}

	if res.StatusCode == http.StatusOK {
		return res, nil
	}

	return nil, refusal(res)
}

// refusal closes an answer without a stream and returns its error. The error wraps errStream if a later
// call may succeed.
func refusal(res *http.Response) error {
	defer func() { _ = res.Body.Close() }()
	p := &client.Problem{}
	raw, _ := io.ReadAll(io.LimitReader(res.Body, tapLine)) // an incomplete body gets the title of its status
	if json.Unmarshal(raw, p) != nil || p.Title == "" {
		p = &client.Problem{Title: http.StatusText(res.StatusCode)}
	}

	p.Status = res.StatusCode
	if p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError {
		return fmt.Errorf("%w: %w", errStream, p)
	}

	return p
}

// take takes one event.
func (l *tapListener) take(event string, data []byte, queue chan<- copied) error {
	var e struct {
		Prefix, Key, Reason string
		Masked              bool
		Instances, Of       int
		Copies              int64
	}
	if event != "copy" {
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("%w: an event cannot be read: %w", errStream, err)
		}
	}

	switch event {
	case "open":
		return l.open(e.Prefix, e.Key, e.Masked)
	case "ready":
		l.complain("ready: copies come from %d of %s", e.Instances, notice.Count(e.Of, "instance"))
	case "dropped":
		l.complain("%s left out: more than the limits allow", notice.Count(e.Copies, "attempt"))
	case "interrupted":
		l.complain("the service lost its connection to Redis; copies may be missing")
	case "end":
		return fmt.Errorf("%w: %s", errStream, clean(e.Reason))
	case "copy":
		c := copied{raw: data}
		if err := json.Unmarshal(data, &c.ShownCopy); err != nil {
			return fmt.Errorf("%w: a copy cannot be read: %w", errStream, err)
		}

		l.handle(c, queue)
	}

	return nil
}

// open prints what holds for the stream.
func (l *tapListener) open(prefix, key string, masked bool) error {
	if masked && l.to != nil {
		return usage("--forward-to: this service masks bodies (NOTIFIER_UI_BODIES, NOTIFIER_UI_MASK), and a masked copy is no request")
	}

	l.complain("listening to attempts on %s", cmp.Or(clean(prefix), "all keys"))
	if key != "" {
		l.complain("copies are signed with the key of this connection: %s", clean(key))
	} else {
		l.complain("copies are masked and not signed")
	}

	if l.to != nil {
		l.complain("forwarding to %s", l.to.Redacted())
	}

	return nil
}

// handle forwards and prints a copy.
func (l *tapListener) handle(c copied, queue chan<- copied) {
	switch {
	case l.to == nil:
		l.print(c, nil)
	case c.Cut:
		l.print(c, &forwarded{Error: "not forwarded: the body is cut"})
	default:
		select {
		case queue <- c:
		default:
			l.print(c, &forwarded{Error: "not forwarded: the local receiver is slower than the copies"})
		}
	}
}

// forward sends a copy to the local address.
func (l *tapListener) forward(ctx context.Context, c *copied) *forwarded {
	u := *l.to
	if c.Query != "" {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+c.Query, "&")
	}

	method := c.Method
	if method == tracing.Push {
		method = http.MethodPost
	}

	body := []byte(c.Body)
	if c.Base64 != nil {
		body = c.Base64
	}

	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return &forwarded{Error: err.Error()}
	}

	for _, h := range c.Headers {
		req.Header.Set(h.Name, h.Value)
	}

	began := time.Now()
	res, err := l.local.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}

		return &forwarded{Error: reason(err)}
	}

	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, tapLine)) // only the status counts
	_ = res.Body.Close()
	return &forwarded{Status: res.StatusCode, Duration: float64(time.Since(began).Microseconds()) / 1000}
}

// reason is an error of a local call in few words.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}

	return err.Error()
}

// print prints a line for a copy. Two goroutines do.
func (l *tapListener) print(c copied, f *forwarded) {
	l.lines.Lock()
	defer l.lines.Unlock()
	if l.json {
		line := struct {
			Copy      json.RawMessage `json:"copy"`
			Forwarded *forwarded      `json:"forwarded,omitempty"`
		}{c.raw, f}
		_ = l.sayLineOf(line) // a copy that cannot be printed does not end the stream
		return
	}

	at := c.At
	if t, err := time.Parse(notice.StampLayout, c.At); err == nil {
		at = t.Format("15:04:05.000")
	}

	result := string(c.Outcome)
	if c.Status != 0 {
		result = fmt.Sprintf("%d %s", c.Status, result)
	}

	line := fmt.Sprintf("%s  %s  attempt %d  %s %s  %s", clean(at), clean(c.Key), c.Attempt, clean(c.Method),
		clean(cmp.Or(c.URL, "to the "+string(c.Target))), clean(result))
	switch {
	case f == nil:
	case f.Error != "":
		line += "  → " + clean(f.Error)
	default:
		line += fmt.Sprintf("  → %d in %s", f.Status, millis(f.Duration))
	}

	if !c.Signed {
		line += "  not signed: " + clean(c.Why)
	}

	l.say("%s\n", line)
}

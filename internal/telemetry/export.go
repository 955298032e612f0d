package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"notifier/internal/config"
	"notifier/internal/pace"
)

// The signals: spans, and data points of metrics. [TelemetrySignals] is the list.
const (
	signalTraces  = "traces"
	signalMetrics = "metrics"
)

// Results of exporting a span or a data point. They are the label values in [TelemetryResults].
const (
	resultExported = "exported" // the collector accepted the request, and did not report the item as rejected
	resultOverflow = "overflow" // the queue was full, and the item was dropped
	resultFailed   = "failed"   // the request failed, for example because the collector refused it
	resultRejected = "rejected" // the collector accepted the request, but reported the item as rejected
)

// Observer counts items. It must not block.
type Observer interface {
	Telemetry(signal, result string, n int)
}

const (
	// tryFor is how long a request is retried.
	tryFor = time.Minute
	// maxAnswer is the maximum number of bytes read of an answer.
	maxAnswer = 64 << 10
)

// exporter sends the requests of one signal, one at a time.
type exporter struct {
	signal   string
	to       *config.OTLPEndpoint
	client   *http.Client
	again    pace.Loop
	log      *zap.Logger
	observer Observer
	rejected bool // was logged
}

func newExporter(signal string, to *config.OTLPEndpoint, log *zap.Logger, observer Observer) *exporter {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, t.MaxIdleConnsPerHost = to.TLS, 1
	log = log.With(zap.String("signal", signal), zap.Stringer("endpoint", to))
	return &exporter{signal: signal, to: to, log: log, observer: observer,
		client: &http.Client{Transport: t, Timeout: to.Timeout, CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}},
		again: pace.Loop{Min: time.Second, Max: 20 * time.Second, Logger: log,
			Failure: "OpenTelemetry export failed, retrying", Recovered: "exporting to OpenTelemetry again"}}
}

// statusError is an answer with a status other than success.
type statusError struct {
	status int
	after  time.Duration // Retry-After
	text   string
}

// Error names the status, and the beginning of the answer.
func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.200q", e.status, e.text) }

// retryable reports whether the same request may succeed later.
func retryable(err error) bool {
	var s *statusError
	if !errors.As(err, &s) {
		return true // the collector was not reached
	}

	switch s.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}

	return false
}

// send exports n items, and retries for up to a minute or until ctx ends. The answer is read
// into reply. Items that are not taken are counted.
func (x *exporter) send(ctx context.Context, n int, message, reply proto.Message) bool {
	body, err := proto.Marshal(message)
	if err == nil {
		err = x.try(ctx, body, reply)
	}

	if err != nil {
		x.observer.Telemetry(x.signal, resultFailed, n)
		return false
	}

	x.again.Succeed()
	return true
}

// try repeats a request until it succeeds, or cannot.
func (x *exporter) try(ctx context.Context, body []byte, reply proto.Message) error {
	until := time.Now().Add(tryFor)
	for {
		err := x.post(ctx, body, reply)
		if err == nil || ctx.Err() != nil {
			return err
		}

		wait := x.again.Fail(err, zap.Bool("dropped", !retryable(err)))
		var s *statusError
		if errors.As(err, &s) {
			wait = max(wait, s.after)
		}

		if !retryable(err) || time.Now().Add(wait).After(until) || !pace.Wait(ctx, wait) {
			return err
		}
	}
}

// post makes one request.
func (x *exporter) post(ctx context.Context, body []byte, reply proto.Message) error {
	var content bytes.Buffer
	if x.to.Gzip {
		w := gzip.NewWriter(&content)
		_, _ = w.Write(body) // a buffer takes everything
		_ = w.Close()
	} else {
		content.Write(body)
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.to.URL.String(), &content)
	if err != nil {
		return errors.New("the endpoint is not a URL")
	}

	for name, value := range x.to.Headers {
		req.Header.Set(name, value)
	}

	req.Header.Set("Content-Type", "application/x-protobuf")
	if x.to.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}

	resp, err := x.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // its text has the URL, which may contain a secret
			err = wrapped.Err
		}

		return err
	}

	err = readReply(resp, reply)
	var refused *statusError
	if errors.As(err, &refused) {
		for _, value := range x.to.Headers { // the collector may echo them, and the text is logged
			if len(value) >= 4 { // a shorter one would hide ordinary words
				refused.text = strings.ReplaceAll(refused.text, value, "•••")
			}
		}
	}

	return err
}

// readReply reads the answer of the collector, and decodes it into reply if possible.
func readReply(resp *http.Response, reply proto.Message) error {
	defer func() { _ = resp.Body.Close() }()

	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &statusError{resp.StatusCode, retryAfter(resp.Header.Get("Retry-After")), string(answer)}
	}
	if err != nil || resp.Header.Get("Content-Type") != "application/x-protobuf" {
		return nil // accepted; the number of rejected items is not known
	}

	if err := proto.Unmarshal(answer, reply); err != nil {
		proto.Reset(reply)
	}

	return nil
}

// retryAfter reads seconds or a date; 0 if it is neither.
func retryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(s); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}

	return 0
}

// count counts the items of a request that was taken, and logs the first rejection.
func (x *exporter) count(n, rejected int, why string) {
	rejected = min(max(rejected, 0), n)
	x.observer.Telemetry(x.signal, resultExported, n-rejected)
	if rejected == 0 {
		return
	}

	x.observer.Telemetry(x.signal, resultRejected, rejected)
	if !x.rejected {
		x.rejected = true
		x.log.Warn("the OpenTelemetry collector rejected items, which are dropped", zap.Int("items", rejected), zap.String("why", why))
	}
}

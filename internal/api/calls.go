package api

import (
	"context"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap/zapcore"

	"notifier/internal/auth"
	"notifier/internal/notice"
)

// LogCalls says which calls of clients are logged at info. The others are logged at debug.
type LogCalls string

// The settings of NOTIFIER_LOG_CALLS.
const (
	LogOff     LogCalls = "off"
	LogChanges LogCalls = "changes" // calls that may change something, without schedules
	LogAll     LogCalls = "all"
)

// schedules are the operations that LogChanges leaves out, with open, which changes nothing.
var schedules = []string{"schedule", "scheduleBatch", "open"}

// calling holds the log fields of a call, without those of its request and its status.
type calling struct {
	caller
	op *operation // nil = none was found
	// admitted: the call was not refused for a wrong token or by the client's rate. Calls
	// refused so are counted, and would fill the log.
	admitted bool
	// key is the notice's, of a batch the first one's, and count how many notices a batch has.
	key   string
	count int
	// span is the call's; nil if none is recorded.
	span trace.Span
	// opened are the keys of sealed notices whose content the answer has.
	opened []string
	// noted: the log has a line "operator action" for the call.
	noted bool
}

// level is the level at which the call is logged.
func (l LogCalls) level(c *calling) zapcore.Level {
	if !c.admitted || c.noted || c.op.role == auth.Public {
		return zapcore.DebugLevel
	}
	if l == LogAll || l == LogChanges && c.op.method != http.MethodGet && !slices.Contains(schedules, c.op.id) {
		return zapcore.InfoLevel
	}

	return zapcore.DebugLevel
}

// id is the operation's id, or empty.
func (c *calling) id() string {
	if c.op == nil {
		return ""
	}
	return c.op.id
}

// batch sets the log fields of a batch.
func (c *calling) batch(items []*item) {
	c.key, c.count = items[0].req.Key, len(items)
}

// clientNumber returns the client's number in the records of its notices; 0 if there is only one client.
func (a *api) clientNumber(ctx context.Context, c caller) int {
	if !a.several || c.Name == "" {
		return 0
	}
	return a.numberer.ClientNumber(ctx, c.Name)
}

// scheduledBy is the client that scheduled a notice, if one is recorded. Only callers without a
// prefix are shown it: they see who the clients are in the metrics anyway.
func (a *api) scheduledBy(ctx context.Context, c caller, n *notice.Notice) string {
	if n == nil || n.Client == 0 || c.Prefix != "" {
		return ""
	}
	return a.numberer.ClientName(ctx, n.Client)
}

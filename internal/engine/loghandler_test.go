package engine

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"notifier/internal/notice"
)

// heldLog is a log whose lines are written by Sync only.
type heldLog struct {
	held, written bytes.Buffer
	err           error
}

func (l *heldLog) Write(line []byte) (int, error) { return l.held.Write(line) }

func (l *heldLog) Sync() error {
	if l.err == nil {
		_, _ = l.held.WriteTo(&l.written) // a buffer takes all
	}
	return l.err
}

// The line of a notice is its delivery: no level of the log leaves it out.
func TestLogHandlerWritesAtAnyLevel(t *testing.T) {
	t.Parallel()
	for _, level := range []zapcore.Level{zap.DebugLevel, zap.InfoLevel, zap.WarnLevel, zap.ErrorLevel} {
		out := &heldLog{}
		l := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), out, level), zap.AddStacktrace(zap.ErrorLevel))
		l.Info("another message")
		res := logHandler{l}.Handle(t.Context(), testRoute("r", "app1"), &notice.Notice{Key: "app1:m:t:1"})
		text := out.written.String()
		if res.Outcome != notice.OutcomeDelivered || !strings.Contains(text, `"level":"info"`) || !strings.Contains(text, `"msg":"notice","key":"app1:m:t:1"`) ||
			strings.Contains(text, "stacktrace") || strings.Contains(text, "another message") != (level <= zap.InfoLevel) {
			t.Errorf("at level %s: %+v, written %q", level, res, text)
		}
	}
}

func TestLogHandlerDeliversOnceLineIsWritten(t *testing.T) {
	t.Parallel()
	out := &heldLog{}
	h := logHandler{zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), out, zap.InfoLevel))}
	n := &notice.Notice{Key: "app1:m:t:1"}
	r := testRoute("r", "app1")

	if got := h.Handle(t.Context(), r, n); got.Outcome != notice.OutcomeDelivered || !bytes.Contains(out.written.Bytes(), []byte(n.Key)) {
		t.Errorf("%+v, written %q", got, out.written.String())
	}
	out.err = errors.New("no space left")
	if got := h.Handle(t.Context(), r, n); got.Outcome != notice.OutcomeRetry || got.Reason != notice.ReasonQueue {
		t.Errorf("%+v", got)
	}
}

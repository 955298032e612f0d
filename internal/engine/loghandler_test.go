package engine

import (
	"bytes"
	"errors"
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

func TestLogHandlerDeliversOnceLineIsWritten(t *testing.T) {
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

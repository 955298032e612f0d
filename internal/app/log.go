package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"notifier/internal/notice"
)

// logDelay is how long a line may wait to be written together with others: a
// write for each attempt costs as much as the attempt's own part of a settle.
// Warnings and errors are written at once, with all that came before them.
const logDelay = 100 * time.Millisecond

// Logger makes the process's logger. Close writes what is still held.
func Logger(level, format string, out io.Writer) (l *zap.Logger, closeLog func(), err error) {
	atLeast, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, nil, err
	}
	c := zap.NewProductionEncoderConfig()
	c.TimeKey, c.EncodeTime = "time", utcMilli
	c.ConsoleSeparator = "  "
	encoder := zapcore.NewJSONEncoder(c)
	if format == "console" {
		encoder = zapcore.NewConsoleEncoder(c)
	}
	w := &zapcore.BufferedWriteSyncer{WS: unsynced{out}, FlushInterval: logDelay}
	hurry := zap.Hooks(func(e zapcore.Entry) error {
		if e.Level >= zapcore.WarnLevel {
			return w.Sync()
		}
		return nil
	})
	return zap.New(zapcore.NewCore(encoder, w, atLeast), hurry), func() { _ = w.Stop() }, nil
}

// unsynced writes and leaves the file at that: a pipe or a terminal cannot be
// synced, which zap would report as a line that is no JSON, and nobody waits for
// a log to reach a disk.
type unsynced struct{ io.Writer }

func (unsynced) Sync() error { return nil }

func utcMilli(t time.Time, e zapcore.PrimitiveArrayEncoder) {
	e.AppendString(notice.Stamp(t))
}

// redisLog takes what go-redis would print to stderr: dials that failed, which
// whoever asked for the connection reports as well.
type redisLog struct{ logger *zap.Logger }

// Printf writes one line at debug.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.logger.Debug("redis client", zap.String("says", fmt.Sprintf(format, v...)))
}

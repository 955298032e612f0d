package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"notifier/internal/notice"
)

// Logger makes the process's logger. Warnings and errors are written at once, with all
// lines before them; see lines for the others. closeLog writes the lines that wait.
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

	w := &lines{out: out}
	hurry := zap.Hooks(func(e zapcore.Entry) error {
		if e.Level >= zapcore.WarnLevel {
			return w.Sync()
		}
		return nil
	})
	return zap.New(zapcore.NewCore(encoder, w, atLeast), hurry), func() { _ = w.Sync() }, nil
}

// format is the format of a log that goes to a file, if none is configured: for people where the
// file is a terminal, else for programs.
func format(configured string, out *os.File) string {
	switch {
	case configured != "":
		return configured
	case term.IsTerminal(int(out.Fd())):
		return "console"
	}
	return "json"
}

func utcMilli(t time.Time, e zapcore.PrimitiveArrayEncoder) {
	e.AppendString(notice.Stamp(t))
}

// redisLog receives the messages that go-redis would print to stderr: failed dials, which their
// callers report too.
type redisLog struct{ logger *zap.Logger }

// Printf writes one line at debug.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.logger.Debug("redis client", zap.String("says", fmt.Sprintf(format, v...)))
}

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

// Log is the process's log. No method of its Logger waits until a line is written: see lines.
type Log struct {
	*zap.Logger
	encoder zapcore.Encoder
	lines   *lines
}

// closeWait bounds the time for the last lines of a process.
const closeWait = time.Second

// NewLog makes a log. Warnings and errors are written soonest, with all lines before them.
func NewLog(level, format string, out io.Writer) (*Log, error) {
	atLeast, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, err
	}

	c := zap.NewProductionEncoderConfig()
	c.TimeKey, c.EncodeTime = "time", utcMilli
	c.ConsoleSeparator = "  "
	encoder := zapcore.NewJSONEncoder(c)
	if format == "console" {
		encoder = zapcore.NewConsoleEncoder(c)
	}

	l := &Log{encoder: encoder, lines: &lines{out: out}}
	if f, ok := out.(*os.File); ok {
		l.lines.await = awaitRoom(f)
	}

	l.Logger = zap.New(core{atLeast, encoder, l.lines})
	l.lines.report = func(dropped int64) {
		l.Warn("log lines were dropped: they were not read in time", zap.Int64("lines", dropped))
	}
	return l, nil
}

// Close writes the buffered lines, unless nobody reads them.
func (l *Log) Close() { _ = l.Sync() }

// Write writes text that is not a log line, such as the error output of a command. It never waits or fails.
func (l *Log) Write(text []byte) (int, error) { return l.lines.Write(text) }

// Deliver writes a line at level info, whatever the level of the log is. It returns nil once the output has taken the
// whole line. After an error the line is not written, unless its write had begun. A line whose write has begun is waited
// for until the timeout. A nil Log discards the line.
func (l *Log) Deliver(ctx context.Context, timeout time.Duration, message string, fields ...zap.Field) error {
	if l == nil {
		return nil
	}

	text, err := l.encoder.EncodeEntry(zapcore.Entry{Level: zap.InfoLevel, Time: time.Now(), Message: message}, fields)
	if err != nil {
		return err
	}

	defer text.Free()
	return l.lines.deliver(ctx, text.Bytes(), timeout)
}

// Problem returns why lines are not written at the moment; empty if they are.
func (l *Log) Problem() string {
	if l == nil {
		return ""
	}

	dropped, problem := l.lines.state()
	if problem == nil {
		return ""
	}

	return fmt.Sprintf("the log is not written: %s; %s dropped since the start", problem, notice.Count(int(dropped), "line"))
}

// Dropped returns the number of lines that were dropped.
func (l *Log) Dropped() int64 {
	if l == nil {
		return 0
	}

	dropped, _ := l.lines.state()
	return dropped
}

// droppedLast are the messages whose lines have a reserve in the buffer, as fatal ones have.
var droppedLast = map[string]bool{"operator action": true, "Redis no longer has this service's data": true,
	"Redis evicts keys, notices are lost": true}

// core puts the lines of a logger into the buffer.
type core struct {
	zapcore.LevelEnabler
	encoder zapcore.Encoder
	lines   *lines
}

// With implements zapcore.Core.
func (c core) With(fields []zap.Field) zapcore.Core {
	c.encoder = c.encoder.Clone()
	for _, f := range fields {
		f.AddTo(c.encoder)
	}

	return c
}

// Check implements zapcore.Core.
func (c core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write implements zapcore.Core. A fatal line is written before Write returns, if it can be written within closeWait.
func (c core) Write(e zapcore.Entry, fields []zap.Field) error {
	text, err := c.encoder.EncodeEntry(e, fields)
	if err != nil {
		return err
	}

	defer text.Free()
	switch fatal := e.Level > zap.ErrorLevel; {
	case fatal || droppedLast[e.Message]:
		c.lines.put(text.Bytes(), reserved)
		if fatal {
			return c.Sync()
		}
	case e.Level >= zap.WarnLevel:
		c.lines.put(text.Bytes(), urgent)
	default:
		c.lines.put(text.Bytes(), ordinary)
	}

	return nil
}

// Sync implements zapcore.Core. It returns nil once the buffered lines are written. The file itself is not synced: a pipe
// and a terminal cannot be, and no process waits for a log to reach a disk.
func (c core) Sync() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return c.lines.deliver(ctx, nil, closeWait)
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

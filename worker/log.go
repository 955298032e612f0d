package worker

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// core is a zapcore.Core that writes to a slog.Handler.
type core struct {
	handler slog.Handler
	fields  []zapcore.Field
}

// levelOf returns slog's level: the levels of zap are 4 times closer.
func levelOf(l zapcore.Level) slog.Level { return slog.Level(4 * int(min(l, zapcore.ErrorLevel))) }

// Enabled implements zapcore.Core.
func (c *core) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), levelOf(l))
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.handler, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements zapcore.Core.
func (c *core) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// Write implements zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	record := slog.NewRecord(e.Time, levelOf(e.Level), e.Message, 0)
	for _, list := range [][]zapcore.Field{c.fields, fields} {
		for _, f := range list {
			f.AddTo(values)
			if v, ok := values.Fields[f.Key]; ok {
				record.AddAttrs(slog.Any(f.Key, v))
			}
		}
	}

	return c.handler.Handle(context.Background(), record)
}

// Sync implements zapcore.Core.
func (c *core) Sync() error { return nil }

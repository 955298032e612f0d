package app

import (
	"context"
	"fmt"

	"go.uber.org/zap"
)

// redisLog takes what go-redis would print to stderr: dials that failed, which
// whoever asked for the connection reports as well.
type redisLog struct{ logger *zap.Logger }

// Printf writes one line at debug.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.logger.Debug("redis client", zap.String("says", fmt.Sprintf(format, v...)))
}

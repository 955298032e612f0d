package timetravel

import (
	"context"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the emulation makes a Lua state for each script
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(m)
}

// silent drops the client's messages about connections that the tests cut.
type silent struct{}

// Printf is the client's logger.
func (silent) Printf(context.Context, string, ...any) {}

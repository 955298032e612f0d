package worker

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Settings of the services of tests.
const (
	grace    = 50 * time.Millisecond
	takeover = 3 * time.Second
	retain   = 1000
)

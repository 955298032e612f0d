package app

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/internal/notice"
	"notifier/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testRoute(name, prefix string) *route.Route {
	return &route.Route{Name: name, Prefix: prefix, Target: route.Target{Kind: route.KindLog}, Ladder: notice.Ladder{20 * time.Millisecond,
		40 * time.Millisecond},
		Timeout: 2 * time.Second, Ack: route.Ack{Kind: route.Ack2xx}, Concurrency: 64, HostConcurrency: 16}
}

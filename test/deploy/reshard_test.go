package deploy

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// The rights of the service's user are enough to change the number of shards, and for
// what doctor looks at afterwards.
func TestServiceUserMayReshard(t *testing.T) {
	env := map[string]string{"NOTIFIER_LISTEN": "127.0.0.1:0", "NOTIFIER_ROUTES": "pay",
		"NOTIFIER_ROUTE_PAY_PREFIX": "shop", "NOTIFIER_ROUTE_PAY_TARGET": "log"}
	s := deployedFor(t, env)
	p, stop := serve(t, env)
	defer stop()
	const n = 20
	await(t, func() bool {
		for i := range n {
			if _, err := p.Schedule(t.Context(), store.Request{Key: fmt.Sprintf("shop:a:b:%d", i), Delay: time.Hour,
				Content: notice.Content{Body: []byte(`{}`)}}); err != nil {
				return false
			}
		}
		return true
	})
	conn, err := wire.Open(wire.Address{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, to := range []int{3, 2} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		done, err := move.Reshard(ctx, move.Options{Conn: conn, Namespace: "notifier", To: to})
		cancel()
		if err != nil || !done.Changed || len(done.Silent) > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	for i := range n {
		if f, err := p.Find(t.Context(), fmt.Sprintf("shop:a:b:%d", i)); err != nil || f.State != notice.Scheduled {
			t.Errorf("%d: %+v, %v", i, f, err)
		}
	}
	c, err := config.Load(envconfig.MapLookuper(env), environ(env), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	report, err := doctor.Run(t.Context(), c, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Severity == doctor.Error || f.Check == "rights" && f.Severity != doctor.OK {
			t.Errorf("doctor: %+v", f)
		}
	}
	refused, err := s.Client().ACLLog(t.Context(), 10).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refused {
		t.Errorf("Redis has refused %s of the user %s", r.Object, r.Username)
	}
}

package embedded

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"notifier/internal/keys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, s *Server) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestEachExpiresOnTimeAndSaysSo(t *testing.T) {
	emulated, err := StartEmulated()
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]*Server{"emulated": emulated}
	if _, err := exec.LookPath("redis-server"); err == nil {
		if servers["process"], err = Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		if servers["process"].Emulated {
			t.Error("a redis-server is on PATH and was not taken")
		}
	}
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			defer s.Close()
			ctx := context.Background()
			c := open(t, s)
			ps := c.Subscribe(ctx, keys.Expired(0))
			defer func() { _ = ps.Close() }()
			if _, err := ps.Receive(ctx); err != nil {
				t.Fatal(err)
			}
			due := time.Now().Add(50 * time.Millisecond).Truncate(time.Millisecond)
			if err := c.Do(ctx, "SET", "a:b:c:d", 1, "PXAT", due.UnixMilli()-1).Err(); err != nil {
				t.Fatal(err)
			}
			m, err := ps.ReceiveMessage(ctx)
			if err != nil || m.Payload != "a:b:c:d" {
				t.Fatal(m, err)
			}
			if early := time.Until(due); early > 0 {
				t.Errorf("%s early", early)
			}
			if n, err := c.Exists(ctx, "a:b:c:d").Result(); n != 0 || err != nil {
				t.Errorf("the key is still there: %d, %v", n, err)
			}
		})
	}
}

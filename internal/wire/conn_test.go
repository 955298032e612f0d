package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

func TestIdleConnectionsEndBeforeFirewallsForgetThem(t *testing.T) {
	t.Parallel()
	for mode, url := range map[string]string{"standalone": "redis://a:1", "sentinel": "redis://a:1?master_name=m", "cluster": "redis://a:1"} {
		c, err := Open(Address{Mode: mode, URL: url})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, client := range []Commander{c.Commander, c.another(waiting{size: 1})} {
			idle := maxIdle + 1
			switch client := client.(type) {
			case *redis.Client:
				idle = client.Options().ConnMaxIdleTime
			case *redis.ClusterClient:
				idle = client.Options().ConnMaxIdleTime
			}
			if idle != maxIdle {
				t.Errorf("%s: %s", mode, idle)
			}
			_ = client.Close()
		}
	}
}

func TestBadURLNamesEscapes(t *testing.T) {
	t.Parallel()
	_, err := Open(Address{URL: "redis://u:a#b/c@h:1"})
	if err == nil || !strings.Contains(err.Error(), "%40 %23 %2F %25") || strings.Contains(err.Error(), "a#b") {
		t.Errorf("%v", err)
	}
}

// A new connection is refused after Detect has read the limit.
func TestRefusedConnectionNamesLimit(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig("maxclients 2")) // testkit has one
	conn, err := Open(Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w := New(Options{Client: conn, Conn: conn})
	if err := w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	sub, err := Subscribe(t.Context(), conn, "a") // needs another connection
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	_, err = Receive(t.Context(), sub)
	var refused *ConnectError
	if !errors.As(Wrap("listen", err), &refused) || !errors.Is(Wrap("listen", err), ErrUnavailable) || !NotSent(err) ||
		!strings.Contains(err.Error(), "maxclients (2)") {
		t.Errorf("%v", err)
	}
}

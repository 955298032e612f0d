package wire_test

import (
	"testing"

	"notifier/internal/testkit"
	"notifier/internal/wire"
)

var countedScript = wire.NewScript("look", "return {redis.call('TIME')[1]}", false).Anywhere()

func TestTrafficIsCountedByScript(t *testing.T) {
	t.Parallel()
	conn, err := wire.Open(wire.Address{URL: testkit.StartRedis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if trips, used, idle := conn.Traffic(); len(trips) != 0 || used != 0 || idle != 0 {
		t.Errorf("before the first command: %v, %d, %d", trips, used, idle)
	}
	c := wire.New(wire.Options{Client: conn, Conn: conn})
	for range 3 {
		if _, err := c.Run(t.Context(), countedScript, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p := conn.Pipeline()
	p.Exists(t.Context(), "a")
	p.Exists(t.Context(), "b")
	if _, err := p.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}

	trips, used, idle := conn.Traffic()
	// The first EVALSHA is answered with NOSCRIPT, so EVAL follows.
	for op, want := range map[string]uint64{"look": 3, "eval": 1, "ping": 1, "exists": 1} {
		if trips[op] != want {
			t.Errorf("%s: %d round trips, want %d", op, trips[op], want)
		}
	}
	if trips["hello"] == 0 || used != 0 || idle < 1 {
		t.Errorf("%v, %d used, %d idle", trips, used, idle)
	}
}

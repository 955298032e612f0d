package testkit

import (
	"testing"

	"github.com/alicebob/miniredis/v2/server"
)

// Sentinel starts a sentinel that says of every master that it is on a port of this machine, and returns its address.
func Sentinel(t testing.TB, port func() string) string {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(s.Close)
	err = s.Register("SENTINEL", func(c *server.Peer, _ string, args []string) {
		if args[0] == "get-master-addr-by-name" {
			c.WriteStrings([]string{"127.0.0.1", port()})
		} else {
			c.WriteLen(0) // no other sentinels
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	return s.Addr().String()
}

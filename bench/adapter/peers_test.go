//go:build peers

package adapter

import "testing"

// Needs all servers: scripts/bench-deps.sh brings them.
func TestPeersConform(t *testing.T) {
	for _, e := range All() {
		t.Run(e.Info.Name, func(t *testing.T) { conform(t, e) })
	}
}

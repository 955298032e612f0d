package notice

import "testing"

func TestDurabilityRoundTrips(t *testing.T) {
	for text, want := range map[string]Durability{"memory": {}, "fsync": {Fsync: true}, "replicas:1": {Replicas: 1},
		"replicas:16": {Replicas: 16}} {
		got, err := ParseDurability(text)
		if err != nil || got != want || got.String() != text || got.Waits() != (text != "memory") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Memory", "replicas", "replicas:", "replicas:0", "replicas:17", "replicas:-1", "replicas:1,2", "disk"} {
		if got, err := ParseDurability(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

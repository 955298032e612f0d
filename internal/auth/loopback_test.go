package auth

import "testing"

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST.:80": true, "127.0.0.1": true, "127.8.0.1:9": true, "[::1]:80": true,
		"::1": true,
		"":    false, "10.0.0.1": false, "localhost.example": false, "127.0.0.1.example:80": false, "[fe80::1]": false} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

package doctor

import (
	"strings"
	"testing"

	"notifier/internal/config"
	"notifier/internal/route"
)

func TestLimitsOfMachine(t *testing.T) {
	fixed, err := route.ParseTarget("https://shop.example/paid")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Concurrency: 512, Routes: []*route.Route{
		{Target: fixed, Concurrency: 200, HostConcurrency: 100},
		{Target: fixed, Concurrency: 50},
		{Target: route.Target{Kind: route.KindNotice}, Concurrency: 400, HostConcurrency: 16},
		{Target: route.Target{Kind: route.KindList}, Concurrency: 5000},
	}}
	for _, c := range []struct {
		descriptors, ports int
		want               []string
	}{
		{608, 150, nil},
		{608, 0, nil},
		{607, 150, []string{"may open 607 files; NOTIFIER_CONCURRENCY and the connections to Redis and of the API need 608"}},
		{90, 149, []string{"may open 90 files", "has 149 ephemeral ports; up to 150 connections"}},
	} {
		var got []string
		for _, f := range limits(cfg, c.descriptors, c.ports) {
			if f.Severity == Warning && f.Remedy != "" {
				got = append(got, f.Message)
			}
		}
		ok := len(got) == len(c.want)
		for i := range c.want {
			ok = ok && strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%d descriptors, %d ports: %q", c.descriptors, c.ports, got)
		}
	}
}

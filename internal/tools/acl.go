package main

import (
	"slices"
	"strings"

	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// users returns deploy/users.acl: the least rights for the routes of the Compose files in the same folder, on one Redis, under
// Sentinel and on a cluster. Redis reads its append-only file back as the user default, who therefore keeps all rights and
// cannot log in.
func users() string {
	example := &config.Config{
		Redis: config.Redis{URL: "redis://redis:6379/0"}, Namespace: "notifier", Durability: notice.Durability{Replicas: 1},
		Routes: []*route.Route{{Name: "orders", Prefix: "shop:orders", Target: route.Target{Kind: route.KindFixed}, OnDead: &route.Route{}}},
	}
	alone, cluster := doctor.Rights(example, false, 0, nil), doctor.Rights(example, true, 0, nil)
	for _, rule := range alone {
		if !slices.Contains(cluster, rule) {
			cluster = append(cluster, rule)
		}
	}

	return "user default off ~* &* +@all\nuser notifier on resetpass " + strings.Join(cluster, " ") + "\n"
}

package meta

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clientPackages hold connections to Redis, and may name the types of go-redis that have commands as methods. Package
// config only parses addresses.
var clientPackages = []string{"internal/wire", "internal/config"}

// namesClient matches those types, and types whose fields lead to them.
var namesClient = regexp.MustCompile(`\bredis\.(UniversalClient|UniversalOptions|Client|ClusterClient|SentinelClient|Ring|Conn|Tx|PubSub|` +
	`Options|ClusterOptions|FailoverOptions|RingOptions|AutoPipeliner)\b`)

// The compiler creates 1,500 functions in a package that names such a type, which takes 2 seconds.
func TestOnlyWireNamesClientsOfRedis(t *testing.T) {
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if isTest(rel) || isUnshipped(dir) || !runsNotices(dir) || slices.Contains(clientPackages, dir) {
			continue
		}
		for i, line := range strings.Split(read(t, rel), "\n") {
			if code, _, _ := strings.Cut(line, "//"); strings.Contains(code, "redis.") && namesClient.MatchString(code) {
				t.Errorf("%s:%d names a client of Redis: want redis.Cmdable or wire.Commander: %s", rel, i+1, strings.TrimSpace(line))
			}
		}
	}
}

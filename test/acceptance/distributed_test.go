//go:build fault

package acceptance

import (
	"strings"
	"testing"

	"notifier/test/record"
)

// level is a setting of durability, and the Redis configuration that it needs.
type level struct {
	durability string
	config     []string
}

func (l level) String() string {
	return strings.Join(append([]string{"`NOTIFIER_DURABILITY=" + l.durability + "`"}, l.config...), ", ")
}

// counts returns the numbers that the record holds of a reckoning.
func (r reckoning) counts() *record.Counts {
	return &record.Counts{Notices: r.confirmed, Lost: len(r.missing), Doubled: r.doubled, Early: &r.early, Failed: &r.failed, Late: &r.most}
}

// version returns the version of a cluster's servers.
func (c *nodes) version(t testing.TB) string {
	t.Helper()
	for _, n := range c.all {
		if v := versionOf(t, n.Client()); !strings.HasSuffix(v, "?") { // one may be dead
			return v
		}
	}
	return ""
}

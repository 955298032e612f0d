//go:build fault

package acceptance

import (
	"strings"
	"testing"

	"notifier/test/record"
)

// level is a setting of durability, and what Redis is told for it.
type level struct {
	durability string
	config     []string
}

func (l level) String() string {
	return strings.Join(append([]string{"`NOTIFIER_DURABILITY=" + l.durability + "`"}, l.config...), ", ")
}

// counts are what the record holds of it.
func (r reckoning) counts() *record.Counts {
	return &record.Counts{Notices: r.confirmed, Lost: len(r.missing), Doubled: r.doubled, Early: &r.early, Failed: &r.failed, Late: &r.most}
}

// version is that of a cluster's servers.
func (c *nodes) version(t testing.TB) string {
	t.Helper()
	for _, n := range c.all {
		if v := versionOf(t, n.Client()); !strings.HasSuffix(v, "?") { // one may be dead
			return v
		}
	}
	return ""
}

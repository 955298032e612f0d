package meta

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// A limit whose test is gone is only said to hold.
func TestSecurityPageNamesExistingTests(t *testing.T) {
	const page = "docs/security.md"
	tests, byNight := map[string]bool{}, map[string]bool{}
	for _, rel := range files(t, "_test.go") {
		for _, m := range testFunction.FindAllStringSubmatch(read(t, rel), -1) {
			tests[path.Dir(rel)+"."+m[1]] = true
			byNight[path.Dir(rel)+"."+m[1]] = strings.HasPrefix(read(t, rel), "//go:build fault")
		}
	}
	named := regexp.MustCompile("`([a-z/]+\\.(?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(read(t, page), -1)
	if len(named) < 50 {
		t.Errorf("%s names %d tests", page, len(named))
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("%s names %s, which does not exist", page, m[1])
		}
		if said := strings.HasPrefix(m[1], "test/acceptance.") || m[1] == "test/deploy.TestContainerRunsWithoutPrivileges" ||
			m[1] == "test/deploy.TestComposeVariantsSurviveNetworkPartition"; said != byNight[m[1]] {
			t.Errorf("%s: the page's first lines are wrong about whether only make fault runs %s", page, m[1])
		}
	}
}

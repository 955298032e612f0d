package meta

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// README.zh-CN.md has the same commands as README.md. Comments in the blocks may be translated.
func TestTranslatedREADMEHasTheSameCommands(t *testing.T) {
	want, got := commands(read(t, "README.md")), commands(read(t, "README.zh-CN.md"))
	if len(want) < 2 {
		t.Fatalf("README.md has %d blocks", len(want))
	}
	for _, block := range want {
		if !slices.Contains(got, block) {
			t.Errorf("README.zh-CN.md lacks the block\n%s", block)
		}
	}
	for _, block := range got {
		if !slices.Contains(want, block) {
			t.Errorf("README.zh-CN.md has a block that README.md lacks\n%s", block)
		}
	}
}

// The first steps lead to the dashboard, with a picture of it.
func TestFirstStepsShowTheDashboard(t *testing.T) {
	for page, picture := range map[string]string{"README.md": "(docs/dashboard/now.png)", "README.zh-CN.md": "(docs/dashboard/now-zh.png)"} {
		steps := strings.Split(read(t, page), "\n## ")[1]
		for _, want := range []string{"http://127.0.0.1:8080/ui/", "(docs/dashboard.md)", picture} {
			if !strings.Contains(steps, want) {
				t.Errorf("the first section of %s lacks %q", page, want)
			}
		}
	}
}

var (
	commandBlock = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	shellComment = regexp.MustCompile(`(?m)\s+# .*$|^# .*$`)
)

// commands are the blocks of a page, without comments.
func commands(page string) (blocks []string) {
	for _, m := range commandBlock.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, strings.TrimSpace(shellComment.ReplaceAllString(m[1], "")))
	}
	return blocks
}

package meta

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// numberWords are the words for numbers from 0.
var numberWords = strings.Fields("no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen")

// TestRecipesAreCountedRight checks each place that says how many recipes docs/api.md has.
func TestRecipesAreCountedRight(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/api.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := len(regexp.MustCompile(`(?m)^## \d+\. `).FindAll(text, -1))
	if n == 0 || n >= len(numberWords) {
		t.Fatalf("docs/api.md has %d recipes", n)
	}
	said, phrase := 0, regexp.MustCompile(`(?i)\b(`+strings.Join(numberWords, "|")+`|\d+) recipes\b`)
	for _, f := range files(t, ".md", ".go", ".templ", ".sh") {
		if strings.HasSuffix(f, "counts_test.go") || filepath.Base(f) == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range phrase.FindAllStringSubmatch(string(text), -1) {
			said++
			if word := strings.ToLower(m[1]); slices.Index(numberWords, word) != n {
				t.Errorf("%s says %q, docs/api.md has %s", f, m[0], numberWords[n])
			}
		}
	}
	if said < 2 {
		t.Errorf("%d places count the recipes, want the title of docs/api.md and README.md", said)
	}
}

package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifier/internal/wire"
)

// A change of a script must not leave a mutant without its line: the search of the other mutants takes minutes.
func TestMutantsHaveTheirLines(t *testing.T) {
	files, err := filepath.Glob("../../internal/*/lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	parts, err := filepath.Glob("../../internal/store/lua/lib/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, parts...) {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
		all.WriteString(wire.Prelude(string(text)))
	}
	for _, m := range mutations {
		for line := range strings.SplitSeq(m.old, "¦") {
			if !strings.Contains(all.String(), line) {
				t.Errorf("%s: no script has the line %q", m.name, line)
			}
		}
	}
}

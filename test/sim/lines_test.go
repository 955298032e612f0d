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
	var files []string
	for _, folder := range []string{"*/lua", "store/lua/lib", "store/lua/lib/order"} {
		found, err := filepath.Glob("../../internal/" + folder + "/*.lua")
		if err != nil || len(found) == 0 {
			t.Fatalf("no scripts in %s: %v", folder, err)
		}
		files = append(files, found...)
	}
	var all strings.Builder
	for _, f := range files {
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

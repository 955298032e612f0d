//go:build chaos

package chaos

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The run must be able to fail: a program that makes one call in fifty twice, without any
// fault, is found out, also while faults go on that may duplicate.
func TestMutantThatDuplicatesFailsRun(t *testing.T) {
	x := newRun(t, build(t, "-overlay", mutant(t)), "safety", rand.New(rand.NewPCG(1, 1)))
	x.play(standalone, 10*time.Second)
	v := x.verdict
	t.Logf("%d duplicates, of which %d are unexplained, of %d arrivals", len(v.Duplicates), len(v.Unexplained), v.Arrivals)
	if v.ok() || len(v.Unexplained) == 0 {
		t.Errorf("the run takes a program that duplicates for a good one: %d duplicates, %d unexplained", len(v.Duplicates), len(v.Unexplained))
	}
}

// mutant returns the overlay of go build with which the program makes calls twice.
func mutant(t testing.TB) (overlay string) {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("..", "..", "internal", "engine", "handlers.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), mutated) != 1 {
		t.Fatalf("%s has no line %q to change: see what became of it, and change the mutant", source, mutated)
	}
	changed := filepath.Join(t.TempDir(), "handlers.go")
	mutant := strings.NewReplacer(mutated, twice+mutated, "import (\n", "import (\n\t\"sync/atomic\"\n").Replace(string(text)) + counter
	if err := os.WriteFile(changed, []byte(mutant), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// With twice before the line that makes a call, one call in fifty is made twice.
const (
	twice   = "\tif made.Add(1)%50 == 0 {\n\t\t_ = h.Handler.Handle(ctx, r, n)\n\t}\n"
	counter = "\nvar made atomic.Int64\n"
)

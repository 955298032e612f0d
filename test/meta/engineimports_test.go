package meta

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// outside lists the libraries of the layers beside and above the engine.
var outside = []string{
	"github.com/danielgtaylor/huma/v2", "github.com/a-h/templ", "github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "modernc.org/sqlite",
	"github.com/mattn/go-sqlite3", "github.com/prometheus/client_golang", "go.opentelemetry.io/otel/sdk",
}

// outsideExceptions lists the packages below the engine that import such a library, each with the reason.
var outsideExceptions = map[string]string{
	"internal/codec github.com/danielgtaylor/huma/v2": "the types of records describe their OpenAPI schemas in methods",
}

// A program that embeds the engine needs no HTTP framework, template engine, database driver or metrics
// client. The exceptions are the work that remains: an entry that no longer applies is an error too.
func TestEngineImportsNothingOutside(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./internal/engine")
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(outsideExceptions)
	for line := range strings.Lines(string(list)) {
		imports := strings.Fields(line)
		dir, ours := strings.CutPrefix(imports[0], module(t)+"/")
		if !ours {
			continue
		}
		for _, imported := range imports[1:] {
			i := slices.IndexFunc(outside, func(lib string) bool { return within(imported, lib) })
			if i < 0 {
				continue
			}
			if outsideExceptions[dir+" "+outside[i]] == "" {
				t.Errorf("%s, which the engine needs, imports %s", dir, imported)
			}
			delete(left, dir+" "+outside[i])
		}
	}
	for x := range left {
		t.Errorf("%s is no longer imported: remove the exception", x)
	}
}

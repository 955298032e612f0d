package meta

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// outside lists the libraries of the layers beside and above the engine.
var outside = []string{
	"github.com/danielgtaylor/huma/v2", "github.com/a-h/templ", "github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "modernc.org/sqlite",
	"github.com/mattn/go-sqlite3", "github.com/prometheus/client_golang", "go.opentelemetry.io/otel/sdk", "github.com/spf13/cobra",
	"github.com/alicebob/miniredis/v2",
}

// A program that embeds the engine, or imports package worker, needs no HTTP framework, template engine, database driver,
// metrics client or command line.
func TestEngineImportsNothingOutside(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"internal/engine", "worker"} {
		cmd := exec.Command("go", "list", "-deps", "./"+dir)
		cmd.Dir = root
		list, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for imported := range strings.FieldsSeq(string(list)) {
			if slices.ContainsFunc(outside, func(lib string) bool { return within(imported, lib) }) {
				t.Errorf("%s needs %s", dir, imported)
			}
		}
	}
}

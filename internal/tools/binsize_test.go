package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestModuleOfSymbols(t *testing.T) {
	modules := []string{"notifier", "github.com/a/b", "github.com/a/b/v2", "gopkg.in/yaml.v3"}
	for symbol, want := range map[string]string{
		"notifier/internal/ui.(*Pages).ServeHTTP": "notifier", "github.com/a/b.F": "github.com/a/b", "github.com/a/b/v2/c.F": "github.com/a/b/v2",
		"github.com/a/bc.F": standard, "go:itab.*github.com/a/b.T,io.Reader": "github.com/a/b", "type:.eq.notifier/client.Notice": "notifier",
		"gopkg.in/yaml%2ev3.Unmarshal": "gopkg.in/yaml.v3", "net/http.Get": standard, "main.run": "notifier", "go:func.*": standard,
	} {
		if got := moduleOf(symbol, modules); got != want {
			t.Errorf("%s belongs to %s, want %s", symbol, got, want)
		}
	}
}

func TestSizesOfAProgram(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":  "module example.com/small\n\ngo 1.26\n",
		"main.go": "package main\n\nfunc main() { println(1) }\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "small")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=linux", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	var out bytes.Buffer
	if err := binsize(program, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{standard, nameless, "example.com/small", "all modules"} {
		if !strings.Contains(out.String(), "  "+name+"\n") {
			t.Errorf("no row of %q:\n%s", name, &out)
		}
	}
}

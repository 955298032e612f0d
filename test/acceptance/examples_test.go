//go:build !quick

package acceptance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"notifier/internal/testkit"
)

// Each program of examples/ does what its comment says, against a service as
// examples/README.md starts it.
func TestExamples(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile("../../examples/serve.env")
	if err != nil {
		t.Fatal(err)
	}
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s, err := exe(t, here{}, port, "", [][]string{strings.Fields(string(settings))})
	if err != nil {
		t.Fatal(err)
	}
	s.ready()
	names, err := filepath.Glob("../../examples/*/main.go")
	if err != nil || len(names) < 4 {
		t.Fatal(names, err)
	}
	for _, path := range names {
		name := filepath.Base(filepath.Dir(path))
		if name == "verify" || name == "receiver" { // they get a callback: make verifiers runs them
			continue
		}

		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
			defer cancel()
			program := filepath.Join(t.TempDir(), name)
			if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "notifier/examples/"+name).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			cmd := exec.CommandContext(ctx, program, "-unit", "100ms")
			cmd.Env = append(os.Environ(), "NOTIFIER_URL="+s.url)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Run(); err != nil || !strings.Contains(said.String(), "\ndone: ") {
				t.Errorf("%v\n%s", err, said.String())
			}
			readme, err := os.ReadFile("../../examples/README.md")
			if err != nil || !strings.Contains(string(readme), "./examples/"+name) {
				t.Errorf("examples/README.md does not name %s", name)
			}
		})
	}
	s.stop(waitTimeout)
}

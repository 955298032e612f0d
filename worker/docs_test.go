package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var goProgram = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// The programs of the documents compile. They are built as commands that the module does not have.
func TestProgramsOfDocumentsCompile(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", os.DevNull}
	for _, page := range []string{"README.md", "docs/worker.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}

		programs := goProgram.FindAllSubmatch(text, -1)
		if len(programs) == 0 {
			t.Errorf("%s has no program", page)
		}
		for _, m := range programs {
			name := fmt.Sprintf("program%d", len(overlay.Replace))
			file := filepath.Join(dir, name+".go")
			if err := os.WriteFile(file, m[1], 0o600); err != nil {
				t.Fatal(err)
			}

			overlay.Replace[filepath.Join(root, "cmd", name, "main.go")] = file
			args = append(args, "./cmd/"+name)
		}
	}

	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

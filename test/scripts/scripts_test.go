//go:build !quick

package scripts

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

const root = "../.."

// copied is a copy of the repository without what git keeps and what builds leave.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		switch {
		case rel == ".git" || rel == "bin" || rel == "dist" || rel == "deploy/secrets":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o750)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), b, info.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a command in dir.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := try(t, dir, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try returns both outputs of the command.
func try(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	out, err := command(t, dir, args...).CombinedOutput()
	return string(out), err
}

// listed returns the words that a command of go wrote to its output. Go names on the
// other one the modules that it downloads, as it does on a new machine.
func listed(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	out, err := command(t, dir, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return strings.Fields(string(out))
}

func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	// The copy is not a checkout, so git must not read a repository in a folder above it. On a new machine the
	// modules of bench and the fault tests are not downloaded yet, so the module proxy stays as it is.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	return cmd
}

// With another module path the program builds, lists its tests, and knows its version.
func TestSetModulePath(t *testing.T) {
	const path = "git.example.com/payments/notifier"
	dir := copied(t)
	for _, wrong := range []string{"", "notifier2", "example.com", "Example.com/x", "https://example.com/x"} {
		if out, err := try(t, dir, "scripts/set-module-path.sh", wrong); err == nil || !strings.Contains(out, "usage:") {
			t.Errorf("%q: %v, %s", wrong, err, out)
		}
	}
	run(t, dir, "scripts/set-module-path.sh", path)
	if out := run(t, dir, "scripts/set-module-path.sh", path); !strings.Contains(out, "already") {
		t.Errorf("the second time: %s", out)
	}
	for _, module := range []string{".", "bench"} {
		for _, pkg := range listed(t, filepath.Join(dir, module), "go", "list", "./...") {
			if !strings.HasPrefix(pkg, path+"/") {
				t.Errorf("package %s", pkg)
			}
		}
	}
	for what, out := range map[string]string{
		"go.mod":       read(t, dir, "bench/go.mod"),
		"the client":   read(t, dir, "client/doc.go"),
		"user agents":  strings.ReplaceAll(read(t, dir, "internal/app/app.go"), `"notifier/" + o.Version`, path),
		"tools/go.mod": read(t, dir, "tools/go.mod"),
	} {
		if !strings.Contains(out, path) {
			t.Errorf("%s does not name %s", what, path)
		}
	}
	// Imports of tests too are found, and the old path is in no quotes.
	run(t, dir, "go", "list", "-test", "-tags", "fault", "./...")
	old := regexp.MustCompile(`["\x60]notifier/(client|internal|cmd|examples)\b`)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "scripts_test.go") {
			return err
		}
		b, err := os.ReadFile(p)
		if at := old.FindIndex(b); at != nil {
			t.Errorf("%s still says %s", p, b[at[0]:at[1]])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "make", "build", "VERSION=v9.8.7")
	if out := run(t, dir, "bin/notifier", "version"); !strings.Contains(out, "notifier v9.8.7 ") {
		t.Errorf("%s", out)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A release of one platform, this one: the archive holds a program that knows its
// version, and the checksum is the archive's.
func TestRelease(t *testing.T) {
	dist := t.TempDir()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for _, wrong := range [][]string{{}, {"1.2"}, {"v1.2.3", "plan9/amd64"}} {
		if out, err := try(t, root, append([]string{"scripts/release.sh"}, wrong...)...); err == nil || !strings.Contains(out, "usage:") {
			t.Errorf("%q: %v, %s", wrong, err, out)
		}
	}
	for _, again := range []string{"", " again"} {
		run(t, root, "env", "DIST="+dist+again, "IMAGE=none", "scripts/release.sh", "v1.2.3-rc.1", platform)
	}
	name := "notifier_v1.2.3-rc.1_" + runtime.GOOS + "_" + runtime.GOARCH
	archive := read(t, dist, name+".tar.gz")
	sum := sha256.Sum256([]byte(archive))
	if want := hex.EncodeToString(sum[:]) + "  " + name + ".tar.gz\n"; read(t, dist, "SHA256SUMS") != want {
		t.Errorf("SHA256SUMS is %q, want %q", read(t, dist, "SHA256SUMS"), want)
	}
	if read(t, dist+" again", name+".tar.gz") != archive {
		t.Error("the same release twice is not the same to the byte")
	}
	run(t, dist, "tar", "-xzf", name+".tar.gz")
	if out := run(t, dist, name+"/notifier", "version"); !strings.Contains(out, "notifier v1.2.3-rc.1 ") {
		t.Errorf("%s", out)
	}
	for _, file := range []string{"README.md", "CHANGELOG.md", "deploy/users.acl", "openapi.json"} {
		if read(t, dist, name+"/"+file) == "" {
			t.Errorf("%s is empty", file)
		}
	}
}

package meta

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// layers says who stands on whom: a package imports only packages of a smaller
// number. A new package takes its place here, with the number of the highest
// one it must know plus something.
var layers = map[string]int{
	"internal/alarm":    10,
	"internal/coalesce": 10,
	"internal/keys":     10,
	"internal/notice":   20,
	"internal/route":    30,

	"internal/metrics":  35,
	"internal/config":   40,
	"internal/embedded": 40,

	"internal/store": 50,

	"internal/schedule": 60,
	"internal/doctor":   60,
	"internal/dispatch": 60,
	"internal/callback": 60,
	"internal/queue":    60,
	"internal/client":   60,

	"internal/consume":   65,
	"internal/listener":  70,
	"internal/reconcile": 70,
	"internal/adopt":     70,
	"internal/api":       75,
	"internal/dashboard": 80,

	"internal/app":  90,
	"internal/demo": 95,
	"internal/cli":  100,
	"cmd/notifier":  110,
}

// apart are directories that are no part of the service: tools, tests, and the
// modules of their own.
var apart = []string{"internal/meta", "internal/tools", "internal/redistest", "internal/secrettest", "internal/acceptance", "bench", "examples", "tools"}

// testing libraries have no place in what is shipped.
var testLibraries = []string{
	"testing", "net/http/httptest", "github.com/ory/dockertest", "go.uber.org/goleak", "pgregory.net/rapid",
	"github.com/prometheus/client_golang/prometheus/testutil", "notifier/internal/redistest",
}

// isApart tells whether a directory is none of the service's; a package named
// …test serves the tests of its parent.
func isApart(dir string) bool {
	if strings.HasSuffix(dir, "test") {
		return true
	}
	for _, a := range apart {
		if within(dir, a) {
			return true
		}
	}
	return false
}

// layer is the number of a package: its own, or that of the package it is a
// part of.
func layer(dir string) (home string, rank int, known bool) {
	for home = dir; home != "."; home = path.Dir(home) {
		if rank, known = layers[home]; known {
			return home, rank, true
		}
	}
	return dir, 0, false
}

func within(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

// files lists the repository's files by their path from the root.
func files(t *testing.T, want ...string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && strings.HasPrefix(name, ".") && name != ".ci" || name == "testdata" || name == "node_modules" || name == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		for _, w := range want {
			if strings.HasSuffix(name, w) {
				list = append(list, filepath.ToSlash(rel))
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatalf("no files named %v under %s", want, root)
	}
	return list
}

func read(t *testing.T, rel string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, rel))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func parse(t *testing.T, rel string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, rel), nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func isTest(rel string) bool { return strings.HasSuffix(rel, "_test.go") }

func generated(text string) bool {
	return strings.HasPrefix(text, "// Code generated") || strings.Contains(text, "\n// Code generated")
}

func TestEachPackageHasOneComment(t *testing.T) {
	type count struct{ code, tests, codeDocs, testDocs int }
	dirs := map[string]*count{}
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if dirs[dir] == nil {
			dirs[dir] = &count{}
		}
		c := dirs[dir]
		doc := 0
		if parse(t, rel, parser.ParseComments|parser.PackageClauseOnly).Doc != nil {
			doc = 1
		}
		if isTest(rel) {
			c.tests++
			c.testDocs += doc
		} else {
			c.code++
			c.codeDocs += doc
		}
	}
	for dir, c := range dirs {
		docs := c.codeDocs
		if c.code == 0 {
			docs = c.testDocs
		}
		if docs != 1 {
			t.Errorf("%s: %d package comments, want one", dir, docs)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	const most = 600
	for _, rel := range files(t, ".go", ".lua", ".sh") {
		text := read(t, rel)
		if n := strings.Count(text, "\n"); n > most && !generated(text) {
			t.Errorf("%s has %d lines, at most %d: part it by what it is about", rel, n, most)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if isTest(rel) || isApart(dir) {
			continue
		}
		home, rank, known := layer(dir)
		if !known {
			t.Errorf("%s: package %s has no place in the table of layers in internal/meta", rel, dir)
			continue
		}
		for _, spec := range parse(t, rel, parser.ImportsOnly).Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, lib := range testLibraries {
				if within(imported, lib) {
					t.Errorf("%s imports %s, which is for tests", rel, imported)
				}
			}
			below, inside := strings.CutPrefix(imported, "notifier/")
			if !inside {
				continue
			}
			if to, other, ok := layer(below); !ok || isApart(below) || other >= rank && to != home {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports point down only", rel, rank, imported, other)
			}
		}
	}
}

func TestSleepsInTestsHaveAReason(t *testing.T) {
	for _, rel := range files(t, "_test.go") {
		text := read(t, rel)
		if strings.Contains(text, `"testing/synctest"`) || path.Base(rel) == "virtual_test.go" {
			continue // its clock is not the wall's
		}
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			code, _, _ := strings.Cut(line, "//")
			if !strings.Contains(code, "time.Sleep(") || strings.Contains(code, `"time.Sleep(`) {
				continue
			}
			if strings.Contains(line, "// sleep: ") || i > 0 && strings.Contains(lines[i-1], "// sleep: ") {
				continue
			}
			t.Errorf("%s:%d sleeps: wait for a signal, or say why not in a comment `// sleep: …`", rel, i+1)
		}
	}
}

func TestNothingIsLeftForLater(t *testing.T) {
	later := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, rel := range files(t, ".go", ".md", ".lua", ".sh", ".yaml", ".yml", "Makefile", "Dockerfile", ".conf", ".acl") {
		for i, line := range strings.Split(read(t, rel), "\n") {
			if word := later.FindString(line); word != "" {
				t.Errorf("%s:%d says %s: do it, or open an issue", rel, i+1, word)
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	inline  = regexp.MustCompile("`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#{1,6}\s+(.*?)\s*#*$`)
	anchor  = regexp.MustCompile(`<a (?:name|id)="([^"]+)">`)
)

func TestLinksResolve(t *testing.T) {
	for _, rel := range files(t, ".md") {
		text := inline.ReplaceAllString(fence.ReplaceAllString(read(t, rel), ""), "``")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := rel
			if target != "" {
				file = path.Join(path.Dir(rel), target)
			}
			info, err := os.Stat(filepath.Join(root, file))
			if err != nil {
				t.Errorf("%s links to %s, which is not there", rel, m[1])
				continue
			}
			if fragment != "" && !info.IsDir() && strings.HasSuffix(file, ".md") && !anchors(read(t, file))[fragment] {
				t.Errorf("%s links to %s, but there is no heading #%s", rel, m[1], fragment)
			}
		}
	}
}

// anchors are the names under which a page's headings are linked to.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r > 127 || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		for n := 0; ; n++ {
			name := slug
			if n > 0 {
				name += "-" + strconv.Itoa(n)
			}
			if !names[name] {
				names[name] = true
				break
			}
		}
	}
	return names
}

func TestRulesFindWhatTheyAreFor(t *testing.T) {
	a := anchors("# One two\n## What is `x`, exactly?\n## One two\n```\n# not\n```\n")
	for _, want := range []string{"one-two", "what-is-x-exactly", "one-two-1"} {
		if !a[want] {
			t.Errorf("no anchor %s in %v", want, a)
		}
	}
	if a["not"] {
		t.Error("a heading within a fence counts")
	}
	if !isApart("internal/tools/testcount") || isApart("internal/toolsmith") {
		t.Error("isApart goes by letters, not by segments")
	}
}

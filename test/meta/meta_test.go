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
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// layers assigns a number to each package. A package imports only packages with a smaller
// number. The number of a new package is larger than those of its imports.
var layers = map[string]int{
	"client": 5, // public: the standard library only, and nothing internal

	"internal/pace":      10,
	"internal/keys":      10,
	"internal/seal":      15,
	"internal/transport": 15,
	"internal/notice":    20,
	"internal/mask":      22,
	"internal/sign":      25,
	"internal/route":     30,
	"internal/codec":     32,
	"internal/recur":     33,

	"internal/embedded": 48,

	"internal/wire":      47,
	"internal/tracing":   48,
	"internal/auth":      48,
	"internal/audit":     49,
	"internal/store":     50,
	"internal/vault":     49,
	"internal/config":    52,
	"internal/telemetry": 56,
	"internal/receivers": 51,
	"internal/fleet":     55,

	"internal/history": 57,
	"internal/move":    58,
	"internal/jobs":    59,

	"internal/dispatch": 60,
	"internal/callback": 60,
	"internal/queue":    60,

	"internal/doctor":    65,
	"internal/listener":  70,
	"internal/reconcile": 70,
	"internal/intake":    70,
	"internal/search":    72,
	"internal/problems":  73,
	"internal/api":       75,

	"internal/ui": 80,

	"internal/engine": 85,
	"worker":          88,

	"worker/pghistory":     89,
	"worker/sqlitehistory": 89,
	"worker/workerui":      89,

	"internal/app": 90,
	"internal/cli": 100,
	"cmd/notifier": 110,
}

// unshipped lists the directories that are no part of the service: tools, tests, and separate
// modules.
var unshipped = []string{"test", "internal/tools", "internal/testkit", "bench", "examples",
	"tools", "model"}

// testLibraries may not be imported by shipped packages.
var testLibraries = []string{
	"testing", "net/http/httptest", "github.com/ory/dockertest", "go.uber.org/goleak", "pgregory.net/rapid",
	"github.com/anishathalye/porcupine", "github.com/prometheus/client_golang/prometheus/testutil", "notifier/internal/testkit",
}

// isUnshipped reports whether a directory is no part of the service. A package named …test
// serves the tests of its parent.
func isUnshipped(dir string) bool {
	if strings.HasSuffix(dir, "test") {
		return true
	}
	for _, a := range unshipped {
		if within(dir, a) {
			return true
		}
	}
	return false
}

// runsNotices reports whether a directory has code of the service, or of programs that handle notices as it does.
func runsNotices(dir string) bool {
	return within(dir, "internal") || within(dir, "cmd") || within(dir, "worker")
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
			if p != root && strings.HasPrefix(name, ".") && name != ".ci" || name == "testdata" || name == "node_modules" || name == "bin" ||
				name == "dist" {
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
	first, _, _ := strings.Cut(strings.TrimLeft(text, "/-"), "\n")
	return strings.HasPrefix(first, " Code generated") || strings.Contains(text, "\n// Code generated")
}

// module is this module's path.
func module(t *testing.T) string {
	t.Helper()
	path, _, _ := strings.Cut(strings.TrimPrefix(read(t, "go.mod"), "module "), "\n")
	return path
}

// Each package, also one of tests or a command, has one package comment, in a fixed file.
func TestEachPackageHasOneComment(t *testing.T) {
	code := map[string][]string{}
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if _, known := code[dir]; !known {
			code[dir] = nil
		}
		if !isTest(rel) {
			code[dir] = append(code[dir], rel)
		} else if parse(t, rel, parser.ParseComments|parser.PackageClauseOnly).Doc != nil {
			t.Errorf("%s has a package comment, which go doc does not show: want it in doc.go", rel)
		}
	}
	for dir, list := range code {
		if len(list) == 0 {
			t.Errorf("%s has tests only: want a package comment in doc.go", dir)
		}
		var docs []string
		for _, rel := range list {
			f := parse(t, rel, parser.ParseComments|parser.PackageClauseOnly)
			if f.Doc == nil {
				continue
			}
			docs = append(docs, rel)
			begin := "Package " + f.Name.Name + " "
			if f.Name.Name == "main" {
				begin = "Command " + path.Base(dir) + " "
			}
			if !strings.HasPrefix(f.Doc.Text(), begin) {
				t.Errorf("%s: the package comment does not begin with %q", rel, begin)
			}
			if base := path.Base(rel); base != "doc.go" && len(list) > 1 && !(base == "main.go" && f.Name.Name == "main") {
				t.Errorf("%s has the package comment: want it in doc.go, or in main.go for a command", rel)
			}
		}
		if len(list) > 0 && len(docs) != 1 {
			t.Errorf("%s has %d package comments, want one: %v", dir, len(docs), docs)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	const most = 600
	for _, rel := range files(t, ".go", ".templ", ".lua", ".sh") {
		text := read(t, rel)
		if n := strings.Count(text, "\n"); n > most && !generated(text) {
			t.Errorf("%s has %d lines, at most %d: split it by subject", rel, n, most)
		}
	}
}

// maxParameters is how many parameters a function may take: who calls one with more
// gets their order wrong. What belongs together is a struct, such as options.
const maxParameters = 5

func TestFunctionsTakeFewParameters(t *testing.T) {
	for _, rel := range files(t, ".go") {
		if isTest(rel) || within(path.Dir(rel), "bench") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, rel), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range withManyParameters(f) {
			t.Errorf("%s:%d: a function of more than %d parameters", rel, fset.Position(at).Line, maxParameters)
		}
	}
}

// withManyParameters lists the functions that take too many parameters: those declared, those
// of interfaces, and those without a name.
func withManyParameters(f *ast.File) []token.Pos {
	var list []token.Pos
	ast.Inspect(f, func(n ast.Node) bool {
		if t, ok := n.(*ast.FuncType); ok && t.Params.NumFields() > maxParameters {
			list = append(list, t.Pos())
		}
		return true
	})
	return list
}

func TestImportsPointDown(t *testing.T) {
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if isTest(rel) || isUnshipped(dir) {
			continue
		}
		home, rank, known := layer(dir)
		if !known {
			t.Errorf("%s: package %s has no place in the table of layers in test/meta", rel, dir)
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
			below, inside := strings.CutPrefix(imported, module(t)+"/")
			if !inside {
				continue
			}
			if to, other, ok := layer(below); !ok || isUnshipped(below) || other >= rank && to != home {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports point down only", rel, rank, imported, other)
			}
		}
	}
}

// redisPackages may make clients of Redis and send scripts: package wire for the service, and package embedded to check
// its emulated Redis.
var redisPackages = []string{"internal/wire", "internal/embedded"}

var (
	makesClient = regexp.MustCompile(`redis\.(New\w*Client|NewRing|NewScript)\(`)
	sendsScript = regexp.MustCompile(`\.(Eval|EvalSha|EvalRO|EvalShaRO|ScriptLoad)\(`)
	ownEval     = "wire.Eval("
	keyText     = regexp.MustCompile("[\"`][^\"`]*(\\}:|:\\{)[^\"`]*[\"`]")
	keySum      = regexp.MustCompile(`(\bBase\([^()]*\)|\bNamespace|\bbase) ?\+ ?"`)
)

// Redis only through package wire: it counts errors, repeats no write, and does not wait for a node that hangs. Own keys
// only as built by package keys, which the table of rights is made of.
func TestRedisIsReachedThroughWireAndKeysAreBuiltByKeys(t *testing.T) {
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if isTest(rel) || isUnshipped(dir) || !runsNotices(dir) {
			continue
		}
		for i, line := range strings.Split(read(t, rel), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if text := direct(dir, code); text != "" {
				t.Errorf("%s:%d %s: %s", rel, i+1, text, strings.TrimSpace(line))
			}
		}
	}
}

// direct returns the fault of a line that accesses Redis directly, or "".
func direct(dir, code string) string {
	switch {
	case slices.Contains(redisPackages, dir):
	case makesClient.MatchString(code):
		return "makes a client or a script of Redis: want package wire"
	case sendsScript.MatchString(strings.ReplaceAll(code, ownEval, "")):
		return "sends a script: want package wire"
	}
	if dir == "internal/keys" || dir == "internal/doctor" || dir == "internal/notice" { // doctor reads rules of ACLs, notice writes JSON
		return ""
	}
	// Expressions are slow under the race detector, so what each line needs is looked for first.
	text := strings.Contains(code, "}:") || strings.Contains(code, ":{")
	sum := strings.Contains(code, "+")
	if text && keyText.MatchString(code) || sum && keySum.MatchString(strings.ReplaceAll(code, "path.Base(", "(")) {
		return "builds a key: want package keys"
	}
	return ""
}

// The client imports only the standard library, and exports no type of an internal package.
func TestClientImportsOnlyStandardLibrary(t *testing.T) {
	seen := map[string]bool{}
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if isTest(rel) || !within(dir, "client") {
			continue
		}
		seen[dir] = true
		for _, spec := range parse(t, rel, parser.ImportsOnly).Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(imported, "/")
			if below, ours := strings.CutPrefix(imported, module(t)+"/"); ours && !within(below, "client") || !ours && strings.Contains(first, ".") {
				t.Errorf("%s imports %s: client/ has the standard library only", rel, imported)
			}
		}
	}
	if !seen["client"] || !seen["client/webhook"] {
		t.Errorf("only %v were checked", seen)
	}
}

func TestSleepsInTestsHaveAReason(t *testing.T) {
	for _, rel := range files(t, "_test.go") {
		text := read(t, rel)
		if strings.Contains(text, `"testing/synctest"`) || path.Base(rel) == "virtual_test.go" || within(path.Dir(rel), "test/timetravel") {
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

func TestNoUnfinishedMarkers(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	later := regexp.MustCompile(`\b(` + strings.Join(words, "|") + `)\b`)
	for _, rel := range files(t, ".go", ".md", ".lua", ".sh", ".yaml", ".yml", "Makefile", "Dockerfile", ".conf", ".acl") {
		text := read(t, rel)
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
			continue // the expression is slow under the race detector
		}
		for i, line := range strings.Split(text, "\n") {
			if word := later.FindString(line); word != "" {
				t.Errorf("%s:%d says %s: do it, or open an issue", rel, i+1, word)
			}
		}
	}
}

// A comment for a linter that is not run suggests a check that does not exist. The form for
// staticcheck is //lint:ignore.
func TestNoCommentsForUnusedLinters(t *testing.T) {
	for _, rel := range files(t, ".go") {
		for i, line := range strings.Split(read(t, rel), "\n") {
			if strings.Contains(line, "//no"+"lint") || strings.Contains(line, "#no"+"sec") {
				t.Errorf("%s:%d addresses a linter that is not run: %s", rel, i+1, strings.TrimSpace(line))
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

// A newcomer finds each package in the table of folders.
func TestContributingNamesEachPackage(t *testing.T) {
	table := read(t, "CONTRIBUTING.md")
	named := map[string]bool{}
	for _, m := range inline.FindAllString(table, -1) {
		named[strings.Trim(m, "`/")] = true
	}
	seen := map[string]bool{}
	for _, rel := range files(t, ".go") {
		dir := path.Dir(rel)
		if parts := strings.Split(dir, "/"); len(parts) > 2 && parts[0] == "internal" {
			dir = path.Join(parts[:2]...)
		} else if parts[0] == "test" || parts[0] == "bench" || parts[0] == "tools" {
			dir = parts[0]
		}
		if dir == "examples" || within(dir, "examples") || seen[dir] {
			continue
		}
		if seen[dir] = true; !named[dir] {
			t.Errorf("CONTRIBUTING.md, Folders, does not name %s", dir)
		}
	}
	for dir := range named {
		if _, err := os.Stat(filepath.Join(root, dir)); (within(dir, "internal") || within(dir, "client")) && err != nil {
			t.Errorf("CONTRIBUTING.md names %s, which does not exist", dir)
		}
	}
}

// named are the packages in brackets and the scripts of docs/architecture.md.
var named = regexp.MustCompile(`\[([a-z]+)\]|\b([a-z]+\.lua)\b`)

// Newcomers read this page first. It stays short up to its tables of states and transitions, and names existing packages.
func TestArchitecturePageMatchesPackages(t *testing.T) {
	const longest = 150
	text := read(t, "docs/architecture.md")
	intro, _, _ := strings.Cut(text, "\n## States\n")
	if n := strings.Count(intro, "\n"); n > longest {
		t.Errorf("docs/architecture.md has %d lines before its tables, want at most %d", n, longest)
	}

	scripts := map[string]bool{}
	for _, rel := range files(t, ".lua") {
		scripts[path.Base(rel)] = true
	}
	found := named.FindAllStringSubmatchIndex(text, -1)
	if len(found) < 40 {
		t.Errorf("docs/architecture.md names %d packages and scripts, want its diagrams", len(found))
	}
	for _, at := range found {
		name := text[at[0]:at[1]]
		switch link := strings.HasPrefix(text[at[1]:], "("); {
		case at[2] < 0 && !scripts[name]:
			t.Errorf("docs/architecture.md names %s, which is not there", name)
		case at[2] >= 0 && !link && name != "[name]" && layers["internal/"+text[at[2]:at[3]]] == 0:
			t.Errorf("docs/architecture.md names %s, which is no package", name)
		}
	}
}

func TestRulesFindViolations(t *testing.T) {
	a := anchors("# One two\n## What is `x`, exactly?\n## One two\n```\n# not\n```\n")
	for _, want := range []string{"one-two", "what-is-x-exactly", "one-two-1"} {
		if !a[want] {
			t.Errorf("no anchor %s in %v", want, a)
		}
	}
	if a["not"] {
		t.Error("a heading within a fence counts")
	}
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+
		"func right(a, b, c, d, e int) {}\n"+
		"func wrong(a, b, c, d, e, f int) {}\n"+
		"func (x T) method(a, b int, c, d string, e, f bool) {}\n"+
		"type i interface { m(int, int, int, int, int, int) }\n"+
		"var v = func(a, b, c, d, e, f int) {}\n", 0)
	if err != nil || len(withManyParameters(f)) != 4 {
		t.Errorf("%d functions take too many parameters, want 4; %v", len(withManyParameters(f)), err)
	}
	for _, bad := range []string{`c := redis.NewClient(o)`, `p.EvalSha(ctx, sha, ks)`, `x := s.Base(0) + "more"`, `x := "n:{" + tag + "}:x"`} {
		if direct("internal/api", bad) == "" {
			t.Errorf("nothing is wrong with %s", bad)
		}
	}
	if text := direct("internal/api", `wire.Eval(ctx, p, src, ks); s.Shadow(p); x := "a:b"`); text != "" {
		t.Error(text)
	}
	if !isUnshipped("internal/tools/any") || isUnshipped("internal/toolsmith") {
		t.Error("isUnshipped compares letters, not segments")
	}
}

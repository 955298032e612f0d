package meta

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unlogged are packages for tests and tools, whose messages no operator sees.
var unlogged = []string{"internal/engine/enginetest", "internal/testkit", "internal/tools"}

// TestRunbookHasEachLogMessage compares the messages logged at Warn or Error with the tables of the runbook. A message must be a
// string literal, so that an operator can search for it. Values that vary are fields.
func TestRunbookHasEachLogMessage(t *testing.T) {
	logged := map[string]string{} // position in the code, by message
	for _, dir := range []string{"cmd", "internal", "worker"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(root, path)
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains(unlogged, filepath.ToSlash(rel)):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			return messages(path, logged)
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	text, err := os.ReadFile(filepath.Join(root, "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]bool{}
	for _, row := range entryRow.FindAllStringSubmatch(string(text), -1) {
		if entries[row[1]] {
			t.Errorf("docs/runbook.md has two entries for %q", row[1])
		}
		entries[row[1]] = true
		for i, name := range []string{"meaning", "look", "do"} {
			if strings.TrimSpace(row[i+2]) == "" {
				t.Errorf("docs/runbook.md: %q has no text in the column %q", row[1], name)
			}
		}
	}

	delete(logged, "api call") // its level is info or debug
	for _, m := range slices.Sorted(maps.Keys(logged)) {
		if !entries[m] {
			t.Errorf("%s logs a message without an entry in docs/runbook.md: %q", logged[m], m)
		}
		delete(entries, m)
	}
	for _, m := range slices.Sorted(maps.Keys(entries)) {
		t.Errorf("docs/runbook.md has an entry for a message that is never logged at Warn or Error: %q", m)
	}
}

// entryRow is a row of the runbook's tables of messages: message, meaning, look, do.
var entryRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|([^|]*)\\|([^|]*)\\|([^|]*)\\|$")

// messages adds the messages that a file logs at Warn or Error, or at a level that is not constant.
func messages(path string, logged map[string]string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return err
	}

	var failed error
	add := func(e ast.Expr) {
		at := set.Position(e.Pos())
		literal, ok := e.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			failed = fmt.Errorf("%s:%d: the message of a log line is not a string literal", at.Filename, at.Line)
			return
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			failed = err
			return
		}
		logged[text] = fmt.Sprintf("%s:%d", strings.TrimPrefix(filepath.ToSlash(at.Filename), root+"/"), at.Line)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if m := logMessage(n); m != nil {
				add(m)
			}
		case *ast.KeyValueExpr: // of a pace.Loop, which logs it as a warning
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Failure" {
				add(n.Value)
			}
		}
		return true
	})
	return failed
}

// logMessage returns the message of a call of a logger at Warn or above, or at a level that is not a constant below; nil for
// other calls.
func logMessage(call *ast.CallExpr) ast.Expr {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 || !isLogger(method.X) {
		return nil
	}
	switch method.Sel.Name {
	case "Warn", "Error", "DPanic", "Panic", "Fatal":
		return call.Args[0]
	case "Check", "Log":
		if len(call.Args) < 2 {
			return nil
		}
		if level, ok := call.Args[0].(*ast.SelectorExpr); ok && (level.Sel.Name == "InfoLevel" || level.Sel.Name == "DebugLevel") {
			return nil
		}
		if field, ok := call.Args[1].(*ast.SelectorExpr); ok && field.Sel.Name == "Failure" {
			return nil // of a pace.Loop: each is a literal where the Loop is made
		}
		return call.Args[1]
	}
	return nil
}

// isLogger reports whether an expression is a logger, by its name.
func isLogger(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.CallExpr: // logger.With(…)
		if method, ok := e.Fun.(*ast.SelectorExpr); ok {
			return isLogger(method.X)
		}
	}
	name = strings.ToLower(name)
	return name == "l" || strings.HasSuffix(name, "log") || strings.HasSuffix(name, "logger")
}

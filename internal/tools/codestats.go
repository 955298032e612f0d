package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxComplexity is the cyclomatic complexity above which a function is counted.
const maxComplexity = 10

// stats are the figures of a directory.
type stats struct {
	root         string
	packages     map[string]bool // the directories with code
	code, tests  int             // lines
	blank        int             // lines of code that are empty
	funcFields   int             // struct fields under internal whose type is a function
	complex      int             // functions of code above maxComplexity
	storeMethods int             // exported methods of store.Store
	words        int             // of Markdown
}

// codestats measures the size and density of the Go code in a directory, and counts the words of Markdown. It prints one
// figure per line, so that the output of two commits can be compared with diff.
//
// It skips testdata. Files named _test.go count as tests. Other Go files count as code, except generated ones. The
// density of code, not of tests, is measured by several figures, for example the share of blank lines. Another one is
// the number of functions with a high cyclomatic complexity. That is 1, and 1 more for each if, for, case, && and ||,
// including those in function literals.
func codestats(root string, w io.Writer) error {
	s, err := measureCode(root)
	if err != nil {
		return err
	}

	s.print(w)
	return nil
}

// measureCode reads every Go and Markdown file under root.
func measureCode(root string) (*stats, error) {
	s := &stats{root: root, packages: map[string]bool{}}

	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		return s.add(path)
	})
	return s, err
}

// add counts one file.
func (s *stats) add(path string) error {
	switch filepath.Ext(path) {
	case ".md":
		text, err := os.ReadFile(path)
		s.words += len(bytes.Fields(text))
		return err
	case ".go":
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		return s.source(path, text)
	}
	return nil
}

// source counts one Go file.
func (s *stats) source(path string, text []byte) error {
	lines := bytes.Count(text, []byte("\n"))
	if strings.HasSuffix(path, "_test.go") {
		s.tests += lines
		return nil
	}

	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}

	s.packages[filepath.Dir(path)] = true
	s.code += lines
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			s.blank++
		}
	}

	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			s.function(file.Name.Name, f)
		}
	}

	ast.Inspect(file, func(n ast.Node) bool {
		if t, ok := n.(*ast.StructType); ok && s.internal(path) {
			s.funcFields += funcFields(t)
		}
		return true
	})
	return nil
}

// internal reports whether path is a file of a package under internal.
func (s *stats) internal(path string) bool {
	rel, err := filepath.Rel(s.root, path)
	return err == nil && strings.HasPrefix(rel, "internal"+string(filepath.Separator))
}

// function counts one declared function of package pkg.
func (s *stats) function(pkg string, f *ast.FuncDecl) {
	if complexity(f) > maxComplexity {
		s.complex++
	}
	if pkg == "store" && f.Recv != nil && f.Name.IsExported() && receiver(f).Name == "Store" {
		s.storeMethods++
	}
}

// receiver returns the name of the type that method f belongs to.
func receiver(f *ast.FuncDecl) *ast.Ident {
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		default:
			return t.(*ast.Ident)
		}
	}
}

// funcFields returns how many names t declares with a function as type.
func funcFields(t *ast.StructType) int {
	n := 0
	for _, field := range t.Fields.List {
		if _, ok := field.Type.(*ast.FuncType); ok {
			n += len(field.Names)
		}
	}

	return n
}

// complexity returns the cyclomatic complexity of f.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// print writes the figures, one a line.
func (s *stats) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-46s "+format+"\n", append([]any{name}, args...)...)
	}

	line("packages with code", "%d", len(s.packages))
	line("lines of code", "%d", s.code)
	line("lines of tests", "%d", s.tests)
	line("blank lines, % of code", "%.1f", 100*float64(s.blank)/float64(max(s.code, 1)))
	line("exported methods of store.Store", "%d", s.storeMethods)
	line("function-typed struct fields under internal", "%d", s.funcFields)
	line("functions of complexity > 10", "%d", s.complex)
	line("functions of complexity > 10 per 10,000 lines", "%.1f", 1e4*float64(s.complex)/float64(max(s.code, 1)))
	line("words of Markdown", "%d", s.words)
}

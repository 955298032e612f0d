package meta

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The steps of a function are apart: a blank line follows a block of several lines in a list of three statements or more.
// Guards, which leave the function or loop, may follow one another.
func TestBlocksAreFollowedByBlankLine(t *testing.T) {
	for _, rel := range files(t, ".go") {
		text := read(t, rel)
		if generated(text) || strings.HasSuffix(rel, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, rel, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(text, "\n")
		ast.Inspect(file, func(n ast.Node) bool {
			list := statements(n)
			if len(list) < 3 {
				return true
			}
			for i, s := range list[:len(list)-1] {
				end := set.Position(s.End()).Line
				runsOn := set.Position(list[i+1].Pos()).Line > end && strings.TrimSpace(lines[end]) != ""
				if runsOn && isBlock(s) && length(set, s) > 0 && !(isGuard(set, s) && isGuard(set, list[i+1])) {
					t.Errorf("%s:%d: a block of several lines is followed by a blank line", rel, end)
				}
			}
			return true
		})
	}
}

// statements returns the list of statements of a node.
func statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

func isBlock(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.SelectStmt, *ast.TypeSwitchStmt:
		return true
	case *ast.LabeledStmt:
		return isBlock(s.Stmt)
	}
	return false
}

// length returns how many lines a statement has after its first.
func length(set *token.FileSet, s ast.Stmt) int {
	return set.Position(s.End()).Line - set.Position(s.Pos()).Line
}

// isGuard reports whether a statement is an if of three lines that leaves the function or loop.
func isGuard(set *token.FileSet, s ast.Stmt) bool {
	i, ok := s.(*ast.IfStmt)
	if !ok || i.Else != nil || len(i.Body.List) != 1 || length(set, s) != 2 {
		return false
	}
	switch i.Body.List[0].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

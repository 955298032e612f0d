package meta

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// Methods and constants with which code decides where a notice is: in an old shard of a reshard, in a batch of a mover, or
// on the other side of a migration.
var (
	placeCalls = []string{"OldShards", "First", "Homes", "Moving", "Elsewhere", "Side", "Sorts", "Gives", "Closed", "Covering", "CoveringAny",
		"Locate", "MoveOut", "MoveIn", "MoveEnd", "TakeOut", "PutIn", "OutstandingAt"}
	placeNames = []string{"SideOpen", "SideLeaving", "SideLeft", "SideComing", "SideOpened"}
)

// The gate is in package store. Package move has the other end of a migration, and package keys builds the names.
var gatePackages = []string{"internal/store", "internal/move", "internal/keys"}

// These only show the state of a move.
var showMoves = []string{"internal/doctor/data.go", "internal/doctor/sizes.go", "internal/doctor/spread.go", "internal/engine/shards.go"}

// Where a notice is, and whether a call may change it now, is decided by the gate alone. See docs/architecture.md.
func TestGateAloneDecidesWhereNoticesAre(t *testing.T) {
	for _, rel := range files(t, ".go") {
		if dir := path.Dir(rel); isTest(rel) || isUnshipped(dir) || !runsNotices(dir) ||
			slices.Contains(gatePackages, dir) || slices.Contains(showMoves, rel) {
			continue
		}
		for _, name := range decidesPlace(parse(t, rel, 0)) {
			t.Errorf("%s: %s decides where a notice is: want a call of the gate, see internal/store/gate.go", rel, name)
		}
	}
}

// decidesPlace returns the names with which a file decides where a notice is.
func decidesPlace(file *ast.File) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(placeCalls, s.Sel.Name) {
				names = append(names, s.Sel.Name)
			}
		case *ast.SelectorExpr:
			if slices.Contains(placeNames, n.Sel.Name) {
				names = append(names, n.Sel.Name)
			}
		}
		return true
	})
	return names
}

func TestGateRuleFindsDecisions(t *testing.T) {
	code := "package x\n" +
		"func f() bool { return s.Layout.Side().State == store.SideLeft || shard < space.First() || len(l.OldShards()) > 0 }\n" +
		"var first = list.First\n"
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", code, 0)
	if got := strings.Join(decidesPlace(f), " "); err != nil || got != "Side SideLeft First OldShards" {
		t.Errorf("found %q, %v", got, err)
	}
}

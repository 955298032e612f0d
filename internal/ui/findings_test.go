package ui

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"notifier/internal/problems"
	"notifier/internal/wire"
)

// verbs are the places of format strings.
var verbs = regexp.MustCompile(`%[+#]?[0-9.]*[a-z]`)

// template is a text of doctor with %s for its variable parts.
func template(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BinaryExpr:
		return template(x.X) + template(x.Y)
	case *ast.CallExpr:
		if nameOf(x.Fun) == "fmt.Sprintf" {
			return verbs.ReplaceAllString(template(x.Args[0]), "%s")
		}
	case *ast.BasicLit:
		if s, ok := literal(x); ok {
			return s
		}
	case *ast.SelectorExpr:
		if x.Sel.Name == "RemedyFull" {
			return wire.RemedyFull
		}
	}
	return "%s"
}

// doctorTexts are the messages and remedies of doctor, and all its literals.
func doctorTexts(t *testing.T) (texts, literals []string) {
	t.Helper()
	names, err := filepath.Glob("../doctor/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "../config/config.go", "../wire/errors.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if k := nameOf(n.Key); strings.Contains(name, "doctor") && (k == "Message" || k == "Remedy") {
					texts = append(texts, template(n.Value))
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					s, ok := left.(*ast.SelectorExpr)
					if !ok || s.Sel.Name != "Message" && s.Sel.Name != "Remedy" || len(n.Rhs) != len(n.Lhs) {
						continue
					}
					text := template(n.Rhs[i])
					if n.Tok == token.ADD_ASSIGN {
						text = "%s" + text
					}
					texts = append(texts, text)
				}
			case *ast.BinaryExpr, *ast.BasicLit:
				literals = append(literals, verbs.ReplaceAllString(template(n.(ast.Expr)), "%s"))
			}
			return true
		})
	}
	return texts, literals
}

// composed are texts of doctor that are made of several literals. findingsOf has what they become.
var composed = []string{"Redis at %s %s: %s"}

var findingsOf = regexp.MustCompile(`^(instances (run different versions|have different )|Redis at %s (does not answer|refuses)|notify-keyspace-events is |%s is (alive|leaving|unresponsive)$)`)

// Each text of doctor has a Chinese one, and each of these is for a text that doctor has.
func TestFindingsAreTranslated(t *testing.T) {
	texts, literals := doctorTexts(t)
	if len(texts) < 100 {
		t.Fatalf("doctor has %d texts", len(texts))
	}
	prose := regexp.MustCompile(`[a-z]{2,} [a-z]{2,}`)
	for _, text := range texts {
		if !prose.MatchString(text) || command.MatchString(text) || slices.Contains(composed, text) {
			continue
		}
		if _, known := finding(strings.ReplaceAll(text, "%s", "7")); !known {
			t.Errorf("messages.txt lacks %s%s", findingMark, text)
		}
	}
	all := strings.Join(literals, "\n")
	for _, p := range findingPatterns() {
		if findingsOf.MatchString(problems.Bare(p.message)) {
			continue
		}
		parts := strings.Split(problems.Bare(p.message), "%s")
		longest := slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })
		if longest = strings.TrimSpace(longest); !strings.Contains(all, strings.TrimSuffix(longest, "s")) {
			t.Errorf("doctor has no %q", p.message)
		}
	}
}

// Variable parts stay as they are, unless they are texts of doctor themselves.
func TestFindingKeepsItsParts(t *testing.T) {
	for s, want := range map[string]string{
		"localhost:6379 answers in 1ms": "localhost:6379 的响应耗时为 1ms",
		"layout 3, 1 shard":             "布局版本 3，1 个分片",
		`notify-keyspace-events is "" and lacks "Ex": no expired events, so notices are late by the grace; set to "Ex" until the next restart`: `notify-keyspace-events 为 ""，` +
			`缺少 "Ex"：没有过期事件，因此通知会延迟一个宽限时间；已设为 "Ex"，下次重启前有效`,
		"what nobody wrote": "what nobody wrote",
	} {
		said, known := finding(s)
		if got := chinese.plain(said); got != want || known != (got != s) {
			t.Errorf("%q is %q, want %q", s, got, want)
		}
		if got := english.plain(said); got != s {
			t.Errorf("%q is in English %q", s, got)
		}
	}
}

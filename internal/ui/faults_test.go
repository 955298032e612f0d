package ui

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"notifier/internal/problems"
	"notifier/internal/recur"
)

// faultField is the field that a fault of a spec begins with, which the fault has apart.
var faultField = regexp.MustCompile(`^(cron|every|zone|anchor) `)

// recurFaults are the faults of recurring notices, with 7 for their variable parts.
func recurFaults(t *testing.T) (texts []string) {
	t.Helper()
	names, err := filepath.Glob("../recur/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "../engine/recurrences.go") {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || nameOf(call.Fun) != "invalid" && nameOf(call.Fun) != "add" {
				return true
			}
			x := call.Args[0]
			if nameOf(call.Fun) == "add" { // of the engine
				x = call.Args[len(call.Args)-1]
			}
			s, ok := literal(x)
			if in, is := x.(*ast.CallExpr); is && nameOf(in.Fun) == "fmt.Sprintf" {
				s, ok = literal(in.Args[0])
			}
			if ok && s != "%s" {
				s = regexp.MustCompile(`%[.0-9]*q`).ReplaceAllString(faultField.ReplaceAllString(s, ""), `"7"`)
				texts = append(texts, verbs.ReplaceAllString(s, "7"))
			}
			return true
		})
	}
	return texts
}

// Each fault of a recurring notice has a Chinese text.
func TestFaultsAreTranslated(t *testing.T) {
	texts := recurFaults(t)
	if len(texts) < 30 {
		t.Fatalf("recurring notices have %d faults", len(texts))
	}
	used := map[string]bool{}
	for _, s := range append(texts, `"7" is no minute; want 7`, "minute", "hour", "day of the month", "month", "day of the week",
		"* or 0-59, a range such as 0-59, or a list of these", "5-59/15 for a start with a step",
		"a step from 1 to 60, or every for other intervals", "the lower value first, or a list of two ranges", "not a notice key: x") {
		said, known := matched(s, faultPatterns())
		if !known || english.plain(said) != s {
			t.Errorf("messages.txt lacks %s%s", faultMark, s)
			continue
		}
		used[said[0].(string)] = true
	}
	for _, p := range faultPatterns() {
		if !used[p.message] {
			t.Errorf("no fault is %q", problems.Bare(p.message))
		}
	}
}

// The form of a new recurring notice shows a fault in the language of the page.
func TestFormShowsFaultsInChinese(t *testing.T) {
	page := newRecurrencePage{Values: map[string]string{"key": "", "cron": "61 * * * *"}, Wrong: map[string]text{}}
	d := recur.Definition{Key: "app1:a:b:c~1", Spec: recur.Spec{Cron: page.Values["cron"]}}
	page.add(d.Check())
	for field, want := range map[string]string{
		"cron": `表达式 "61 * * * *"："61" 不是有效的分钟；应为 * 或 0-59、范围（例如 0-59），或这些的列表`,
		"key":  `名称 "c~1" 以 ~ 和数字结尾，这是各次触发的通知键的形式`,
	} {
		if got := chinese.plain(page.Wrong[field]); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
}

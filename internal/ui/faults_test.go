package ui

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/recur"
	"notifier/internal/route"
)

// faultField is the field that a fault of a spec begins with, which the fault has apart.
var faultField = regexp.MustCompile(`^(cron|every|zone|anchor) `)

// recurFaults are the faults of recurring notices and of urls, with 7 for their variable parts.
func recurFaults(t *testing.T) (texts []string) {
	t.Helper()
	names, err := filepath.Glob("../recur/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "../engine/recurrences.go", "../notice/address.go") {
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
				texts = append(texts, strings.ReplaceAll(verbs.ReplaceAllString(s, "7"), "%%", "%"))
			}
			return true
		})
	}
	return texts
}

// routeFaults are what routes have against urls.
func routeFaults() (texts []string) {
	log := &route.Route{Name: "r", Target: route.Target{Kind: route.KindLog}}
	https := &route.Route{Name: "r", Target: route.Target{Kind: route.KindNotice}, HTTPSOnly: true}
	all := &route.Route{Name: "r", Target: route.Target{Kind: route.KindNotice}}
	for _, x := range []struct {
		r   *route.Route
		url string
	}{{log, "https://shop.example/"}, {https, ""}, {https, "http://shop.example/"}, {all, "http://localhost/"}, {all, "http://127.0.0.1/"},
		{all, "http://10.0.0.1/"}, {all, "http://169.254.1.1/"}, {all, "http://169.254.169.254/"}} {
		for _, m := range x.r.Misfits(&notice.Content{URL: x.url}) {
			texts = append(texts, m.Text)
		}
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
	var use func(s string)
	use = func(s string) { // and the parts of a text that are texts themselves
		for _, p := range faultPatterns() {
			if parts := p.re.FindStringSubmatch(s); parts != nil {
				used[p.message] = true
				for _, part := range parts[1:] {
					use(part)
				}
				return
			}
		}
	}
	for _, s := range append(append(texts, routeFaults()...), `"7" is no minute; want 7`, "minute", "hour", "day of the month", "month", "day of the week",
		"* or 0-59, a range such as 0-59, or a list of these", "5-59/15 for a start with a step",
		"a step from 1 to 60, or every for other intervals", "the lower value first, or a list of two ranges", "not a notice key: x") {
		said, known := matched(s, faultPatterns())
		if !known || english.plain(said) != s {
			t.Errorf("messages.txt lacks %s%s", faultMark, s)
			continue
		}
		use(s)
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
	d := recur.Definition{Key: "app1:a:b:c~1", Spec: recur.Spec{Cron: page.Values["cron"]}, Content: notice.Content{URL: "shop.example"}}
	page.add(d.Check())
	for field, want := range map[string]string{
		"cron": `表达式 "61 * * * *"："61" 不是有效的分钟；应为 * 或 0-59、范围（例如 0-59），或这些的列表`,
		"":     `url 必须是带主机名的绝对地址（http 或 https）`,
		"key":  `名称 "c~1" 以 ~ 和数字结尾，这是各次触发的通知键的形式`,
	} {
		if got := chinese.plain(page.Wrong[field]); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
}

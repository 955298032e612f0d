package ui

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/a-h/templ/generator"
	templparser "github.com/a-h/templ/parser/v2"
	"golang.org/x/net/html"

	"notifier/internal/jobs"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/sign"
)

// A text that people read is a message of messages.txt, and each message is used.
func TestMessagesAreComplete(t *testing.T) {
	used := map[string]bool{}
	for _, f := range sources(t) {
		messagesIn(t, f, used)
	}
	for _, message := range givenTexts() {
		used[message] = true
	}

	for _, message := range slices.Sorted(maps.Keys(used)) {
		if chinese.texts[message] == "" {
			t.Errorf("messages.txt lacks %q", message)
		}
	}
	for _, message := range slices.Sorted(maps.Keys(chinese.texts)) {
		matched := strings.HasPrefix(message, findingMark) || strings.HasPrefix(message, faultMark) // other tests check those
		if !used[message] && !matched {
			t.Errorf("nothing uses the message %q", message)
		}
	}
}

// givenTexts are the texts of other packages that pages translate.
func givenTexts() (list []string) {
	s := sign.Settings{Schemes: sign.Schemes}
	for _, r := range s.Recipes() {
		for _, text := range []string{r.Algorithm, r.Signed, r.Warning} {
			if strings.Contains(text, " ") {
				list = append(list, text)
			}
		}
	}
	for _, r := range jobs.Reasons() {
		list = append(list, whyNotResent(&jobs.Refusal{Reason: r})[0].(string))
	}
	log := route.Route{Target: route.Target{Kind: route.KindLog}}
	return append(list, log.Acknowledgement())
}

var placeholder = regexp.MustCompile(`%(\[\d\])?s`)

func TestMessagesAreWellFormed(t *testing.T) {
	lines := map[string]int{}
	for line := range strings.Lines(messagesFile) {
		lines[strings.TrimSpace(line)]++
	}
	for message, text := range chinese.texts {
		if lines[message] > 1 && message != text {
			t.Errorf("%q is there %d times", message, lines[message])
		}
		if a, b := len(placeholder.FindAllString(message, -1)), len(placeholder.FindAllString(text, -1)); a != b {
			t.Errorf("%q has %d arguments, %q has %d", message, a, text, b)
		}
		for _, mark := range []string{"`", "**"} {
			if a, b := strings.Count(message, mark), strings.Count(text, mark); a != b || a%2 != 0 {
				t.Errorf("%q and %q differ in %s", message, text, mark)
			}
		}
		words := regexp.MustCompile("`[^`]*`").ReplaceAllString(placeholder.ReplaceAllString(message, ""), "")
		if strings.IndexFunc(words, unicode.IsLetter) >= 0 && message != "%s of %s" && strings.IndexFunc(text, isHan) < 0 {
			t.Errorf("%q is not translated: %q", message, text)
		}
		if halfwidth.MatchString(text) {
			t.Errorf("%q has punctuation of half width after a Chinese character", text)
		}
	}
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

var halfwidth = regexp.MustCompile(`\p{Han}[,.;:?!()]`)

// sources are the Go files of this package, and of those that make texts for it, without tests, by name. Those that templ has
// generated hold the static texts and the expressions of the templates.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	var names []string
	for _, dir := range []string{".", "../problems"} {
		some, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, some...)
	}
	list := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		list[name] = f
	}
	return list
}

func isTemplate(name string) bool { return strings.HasSuffix(name, "_templ.go") }

// messagesIn adds the messages of a Go file: the arguments of say, and of t in a template.
func messagesIn(t *testing.T, f *ast.File, used map[string]bool) {
	t.Helper()
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch x := messageOf(call); x := x.(type) {
		case nil:
		case *ast.Ident:
			if x.Name != "message" { // the parameter of t
				t.Errorf("%s: a message that is not a literal: %s", f.Name, x.Name)
			}
		default:
			message, ok := literal(x)
			if !ok {
				t.Errorf("%s: a message that is not a literal", f.Name)
			}
			used[message] = true
		}
		return true
	})
}

// messageOf returns the argument of a call that is a message; nil for other calls.
func messageOf(call *ast.CallExpr) ast.Expr {
	switch name := nameOf(call.Fun); {
	case name == "say" && len(call.Args) > 0:
		return call.Args[0]
	case name == "t" && len(call.Args) == 2:
		return call.Args[1]
	}
	return nil
}

func nameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return nameOf(x.X) + "." + x.Sel.Name
	}
	return ""
}

func literal(x ast.Expr) (string, bool) {
	if sum, ok := x.(*ast.BinaryExpr); ok && sum.Op == token.ADD { // a text of two lines
		left, ok1 := literal(sum.X)
		right, ok2 := literal(sum.Y)
		return left + right, ok1 && ok2
	}

	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// untranslated are the calls whose texts are for logs, programs and the audit.
var untranslated = regexp.MustCompile(`^(panic|plural|errors\.New|fmt\.Errorf|fmt\.Fprintf|zap\.\w+|.*\.log\.\w+|access\..*)$`)

// prose is a text of several words, or one that begins like a sentence.
var prose = regexp.MustCompile(`^[A-Z][a-z]+( |$)|\b[a-z]{2,} [a-z]{2,}\b`)

// command is a command, or its beginning.
var command = regexp.MustCompile(`^(notifier|redis-cli) [a-z]+ ?`)

func TestTextsOfHandlersAreMessages(t *testing.T) {
	for name, f := range sources(t) {
		if isTemplate(name) {
			continue
		}
		for _, s := range textsOutsideMessages(f) {
			if prose.MatchString(s) && !allowedTexts[s] && !strings.Contains(s, "<") && !command.MatchString(s) {
				t.Errorf("%q is not a message: use say", s)
			}
		}
	}
}

// allowedTexts are read by programs, or are details of the audit, which is in English. Markup is allowed too.
var allowedTexts = map[string]bool{
	"Retry-After": true, "Content-Type": true, "%s of host %s": true, ", spread over ": true, ", skipped nodes:": true, "unknown": true,
	"%s to %s, until %s, at %s": true, ", by link ": true, ", since ": true, "%s: %s that ended since %s, until %s": true, "no reason": true,
	"Accept": true, "Host": true, "Location": true, "Origin": true, "Local": true, "English": true, ": still here\n\n": true,
}

// textsOutsideMessages are the strings of a file that are no messages, tags or imports.
func textsOutsideMessages(f ast.Node) (list []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.CallExpr:
			if message := messageOf(n); message != nil {
				for _, x := range n.Args {
					if x != message {
						list = append(list, textsOutsideMessages(x)...)
					}
				}
				return false
			}
			return !untranslated.MatchString(nameOf(n.Fun))
		case *ast.BasicLit:
			if s, ok := literal(n); ok {
				list = append(list, s)
			}
		}
		return true
	})
	return list
}

// shownAttributes are the attributes that people read or hear.
var shownAttributes = []string{"title", "alt", "placeholder", "aria-label", "aria-description", "aria-roledescription", "data-label"}

// names are the same in each language.
var names = regexp.MustCompile(`\b(notifier|webhook-id|Redis)\b`)

func TestTextsOfTemplatesAreMessages(t *testing.T) {
	count := 0
	for name, f := range sources(t) {
		if !isTemplate(name) {
			continue
		}
		count++
		for _, s := range textsOfTemplate(f) {
			t.Errorf("%s: %q is not a message: use t or say", strings.TrimSuffix(name, "_templ.go")+".templ", s)
		}
	}
	if count < 20 {
		t.Errorf("%d templates, want at least 20", count)
	}
}

// textsOfTemplate lists the texts for people in a generated file: those of its HTML, with the literals of
// expressions in their places, and prose in the arguments of other templates.
func textsOfTemplate(f *ast.File) []string {
	var arguments []string
	markup := ""
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.CallExpr:
			switch name := nameOf(n.Fun); {
			case name == "templruntime.WriteString":
				piece, _ := literal(n.Args[2])
				markup += piece
				return false
			case name == "templ.JoinStringErrs", name == "templruntime.NewAttributeExpression":
				markup += html.EscapeString(strings.Join(textsOutsideMessages(n), ""))
				return false
			case messageOf(n) != nil:
				arguments = append(arguments, textsOutsideMessages(n)...)
				return false
			}
		case *ast.BasicLit:
			if s, ok := literal(n); ok {
				arguments = append(arguments, s)
			}
		}
		return true
	})
	return append(readable(markup), slices.DeleteFunc(arguments, func(s string) bool { return !prose.MatchString(s) })...)
}

// readable lists the texts with letters in a piece of HTML.
func readable(text string) (list []string) {
	quoted := 0
	tokens := html.NewTokenizer(strings.NewReader(text))
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return list
		case html.TextToken:
			if s := strings.TrimSpace(string(tokens.Text())); quoted == 0 && hasLetter(s) {
				list = append(list, s)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := tokens.Token()
			if tag.Data == "code" {
				quoted++
			}
			for _, a := range tag.Attr {
				example := a.Key == "placeholder" && !strings.Contains(a.Val, " ")
				if slices.Contains(shownAttributes, a.Key) && hasLetter(a.Val) && !example {
					list = append(list, a.Val)
				}
			}
		case html.EndTagToken:
			if name, _ := tokens.TagName(); string(name) == "code" {
				quoted--
			}
		}
	}
}

func hasLetter(s string) bool {
	return strings.IndexFunc(names.ReplaceAllString(s, ""), unicode.IsLetter) >= 0
}

// scriptString is a string of a script.
var scriptString = regexp.MustCompile("\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)*'|`[^`]*`")

// Scripts take their texts from the page.
func TestScriptsHoldNoTexts(t *testing.T) {
	for name, data := range files("assets") {
		if filepath.Ext(name) != ".js" {
			continue
		}
		for line := range strings.Lines(string(data)) {
			code, _, _ := strings.Cut(line, "// ")
			for _, s := range scriptString.FindAllString(code, -1) {
				if s = s[1 : len(s)-1]; prose.MatchString(s) && s != "use strict" {
					t.Errorf("%s: the text %q is to be in the page", name, s)
				}
			}
		}
	}
}

// The rules above find the texts that they are for.
func TestTextsOutsideMessagesAreFound(t *testing.T) {
	if got := readable(`<p title="Two words">One <code>code</code> <b>12</b></p><input placeholder="app1:x" aria-label="Name">`); !slices.Equal(got,
		[]string{"Two words", "One", "Name"}) {
		t.Errorf("%q", got)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", `package ui
func f() { say("a message here"); p.log.Warn("a log line"); g("Some text here", "key") }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := textsOutsideMessages(f); !slices.Equal(got, []string{"Some text here", "key"}) || !prose.MatchString(got[0]) ||
		prose.MatchString(got[1]) {
		t.Errorf("%q", got)
	}

	f = generated(t, `package ui
templ x(d string, n int) {
	<a title="Two words" data-label={ "A name" } aria-label={ t(ctx, "Three") } class={ "said", "warn" } href="/ui/some/path">
		One { t(ctx, "Four") } <b>{ d + "Five" }</b> <code>code</code>
		@say("Six %s", n)
		@plain("Some text here")
		@say("Seven %s", "of one kind")
		if d == "" {
			Eight
		}
	</a>
}`)
	want := []string{"Two words", "A name", "One", "Five", "Eight", "Some text here", "of one kind"}
	if got := textsOfTemplate(f); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	used := map[string]bool{}
	messagesIn(t, f, used)
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, []string{"Four", "Seven %s", "Six %s", "Three"}) {
		t.Errorf("messages %q", got)
	}
}

// generated returns the Go code of a template.
func generated(t *testing.T, template string) *ast.File {
	t.Helper()
	tree, err := templparser.ParseString(template)
	if err != nil {
		t.Fatal(err)
	}
	var code bytes.Buffer
	if _, err := generator.Generate(tree, &code); err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", code.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTextsInBothLanguages(t *testing.T) {
	for _, c := range []struct {
		x           any
		want, wantZ string
	}{
		{say("%s notice(s) scheduled again.", 1), "1 notice scheduled again.", "1 条通知将重新投递。"},
		{say("%s notice(s) scheduled again.", 12345), "12,345 notices scheduled again.", "12,345 条通知将重新投递。"},
		{say("The first %s attempt(s) (is|are) no longer recorded.", 1), "The first 1 attempt is no longer recorded.", "最初的 1 次投递已无记录。"},
		{say("%s retr(y|ies) over %s", 9, 25*time.Hour), "9 retries over 1d1h", "1 天 1 小时内重试 9 次"},
		{say("nav|Now"), "Now", "总览"},
		{plain(problems.Until(-3 * time.Minute)), "3m ago", "3 分钟前"},
		{plain(problems.Until(190 * time.Second)), "in 3m10s", "3 分 10 秒后"},
		{plain(problems.Until(0)), "now", "现在"},
		{plain(1200 * time.Microsecond), "1.2ms", "1.2 毫秒"},
		{plain(125 * time.Minute), "2h5m", "2 小时 5 分钟"},
		{perSecond(0.05), "3/min", "3/分钟"},
		{say("%s, %s in a row", plain("HTTP 500"), 38), "HTTP 500, 38 in a row", "HTTP 500，连续 38 次"},
		{say("%s attempt(s), %s failed (%s %).", 3, 1, "33.3"), "3 attempts, 1 failed (33.3 %).", "3 次投递，失败 1 次（33.3 %）。"},
		{say("%s notice(s) under `%s`, which no route covers", 2, "app9"), "2 notices under app9, which no route covers",
			"前缀 app9 下有 2 条通知，没有对应的路由"},
		{[]string{"a", "b"}, "a, b", "a、b"},
		{given("a text of another package"), "a text of another package", "a text of another package"},
	} {
		if got := english.plain(c.x); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if got := chinese.plain(c.x); got != c.wantZ {
			t.Errorf("%q, want %q", got, c.wantZ)
		}
	}
	const attack = "<b>`**%s(s)"
	if got := english.html(say("Stopped at `%s`.", attack)); string(got) != "Stopped at <code>&lt;b&gt;`**%s(s)</code>." {
		t.Errorf("%s", got)
	}
}

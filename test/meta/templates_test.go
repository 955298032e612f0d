package meta

import (
	"bytes"
	"go/format"
	"go/parser"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"github.com/a-h/templ/generator"
	templparser "github.com/a-h/templ/parser/v2"
)

// The Go code of a template is the code that its generator writes today, and the template is formatted.
func TestTemplatesAreGenerated(t *testing.T) {
	for _, rel := range files(t, ".templ") {
		text := read(t, rel)
		tree, err := templparser.ParseString(text)
		if err != nil {
			t.Errorf("%s: %v", rel, err)
			continue
		}

		var formatted, code bytes.Buffer
		if err := tree.Write(&formatted); err != nil {
			t.Fatal(err)
		}
		if formatted.String() != text {
			t.Errorf("%s is not formatted: run go tool -modfile=tools/go.mod templ fmt %s", rel, rel)
		}
		_, err = generator.Generate(tree, &code, generator.WithVersion(templ.Version()), generator.WithFileName(path.Base(rel)))
		if err != nil {
			t.Fatal(err)
		}
		want, err := format.Source(code.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimSuffix(rel, ".templ") + "_templ.go"; read(t, name) != string(want) {
			t.Errorf("%s is not what %s says: run go generate ./%s", name, path.Base(rel), path.Dir(rel))
		}
	}
}

// unescaped are the parts of templ that write a value as it is, and the markup that the pages' Content-Security-Policy
// forbids.
var unescaped = regexp.MustCompile(`\btempl\.(Raw|SafeURL|SafeCSS|SafeCSSProperty|JS\w+|FromGoHTML|ToGoHTML)\b|` +
	`(?m)^(script|css) |<style|\bstyle=|\son[a-z]+=|<script>|\bhref="javascript`)

func TestTemplatesEscapeEachValue(t *testing.T) {
	for _, rel := range files(t, ".templ") {
		if found := unescaped.FindString(read(t, rel)); found != "" {
			t.Errorf("%s has %q, which is not escaped or not allowed by the policy of the pages", rel, found)
		}
	}
	for _, bad := range []string{"@templ.Raw(x)", "<a href={ templ.SafeURL(x) }>", "<p\n\tstyle=\"x\">", "<p onclick={ x }>", "script f() {"} {
		if !unescaped.MatchString(bad) {
			t.Errorf("%q is not found", bad)
		}
	}
}

// Both packages call a method whose name is known only at run time. Then the linker must keep all exported methods of all types:
// 8 MB of a program of 35 MB, and 5 MB of the memory of an idle instance.
func TestProgramHasNoTemplatesOfTheStandardLibrary(t *testing.T) {
	for _, rel := range files(t, ".go") {
		if isTest(rel) || isUnshipped(path.Dir(rel)) {
			continue
		}
		for _, spec := range parse(t, rel, parser.ImportsOnly).Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); imported == "text/template" || imported == "html/template" {
				t.Errorf("%s imports %s: use templ", rel, imported)
			}
		}
	}
}

package notice

import (
	"errors"
	"strings"
	"testing"
)

func TestQueryRefusesWhatServersReadDifferently(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct{ body, typ, field, text string }{
		{"a=%zz", form, "body", "write %25 for the character %"},
		{"a=1;b=2", form, "body", "has a semicolon; write %3B"},
		{"a=1\nb", form, "body", "holds a control character"},
		{"a=\x7f", form, "body", "holds a control character"},
		{"[1]", "application/json", "body", "is not a JSON object"},
		{"null", "application/json", "body", "is not a JSON object"},
		{"<x/>", "text/xml", "content_type", "a GET needs a form or a JSON object"},
	} {
		var wrong *QueryError
		if _, err := Query([]byte(c.body), c.typ); !errors.As(err, &wrong) || wrong.Field != c.field || !strings.Contains(wrong.Text, c.text) {
			t.Errorf("%q: %v, want %s %s", c.body, err, c.field, c.text)
		}
	}
}

package notice

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// QueryError says why a body cannot be the query of a GET. Field is the API's name of the field that is wrong.
type QueryError struct{ Field, Text string }

func (e *QueryError) Error() string { return "its " + e.Field + " " + e.Text }

// Query returns a body of a content type as the query of a GET. A form keeps its order and its bytes, except those that
// are percent-encoded in a url too. The fields of a JSON object are sorted by name; those that are objects or arrays
// are written as JSON. The error is a *QueryError.
func Query(body []byte, typ string) (string, error) {
	if len(body) == 0 {
		return "", nil
	}

	media, _, _ := strings.Cut(typ, ";")
	media = strings.ToLower(strings.TrimSpace(media))

	switch {
	case media == "application/x-www-form-urlencoded":
		return formQuery(strings.TrimSpace(string(body)))
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return objectQuery(body)
	}

	return "", &QueryError{"content_type", fmt.Sprintf("is %.60q, and a GET needs a form or a JSON object", typ)}
}

func formQuery(form string) (string, error) {
	wrong := func(text string) (string, error) {
		return "", &QueryError{"body", text + "; a GET sends the form as its query"}
	}
	if strings.Contains(form, ";") { // some servers split there
		return wrong("has a semicolon; write %3B")
	}

	var out strings.Builder
	for i := range len(form) {
		switch c := form[i]; {
		case c < ' ' || c == 0x7f:
			return wrong("holds a control character; percent-encode it")
		case barePercent(form, i):
			return wrong("has a % that no two hexadecimal digits follow; write %25 for the character %")
		case c == '#' || refused(c):
			out.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		default:
			out.WriteByte(c)
		}
	}

	return out.String(), nil
}

func objectQuery(body []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return "", &QueryError{"body", "is not a JSON object, and a GET needs one, or a form"}
	}

	vals := make(url.Values, len(fields))
	for name, raw := range fields {
		v := string(raw)
		switch raw[0] {
		case '"':
			if err := json.Unmarshal(raw, &v); err != nil {
				return "", &QueryError{"body", fmt.Sprintf("has the field %.60q, which cannot be parsed", name)}
			}
		case 'n':
			v = ""
		}

		vals[name] = []string{v}
	}

	return vals.Encode(), nil
}

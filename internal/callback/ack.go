package callback

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"notifier/internal/route"
)

// needsBody reports whether the rule looks at the answer's body.
func needsBody(a *route.Ack) bool { return a.Kind == route.AckBody || a.Kind == route.AckJSON }

// statusAcks reports whether a status may acknowledge under the rule, whatever
// the body.
func statusAcks(a *route.Ack, status int) bool {
	if a.Kind == route.AckStatus {
		return slices.Contains(a.Status, status)
	}
	return status >= 200 && status <= 299
}

// bodyAcks reports whether the body acknowledges under a rule that looks at it;
// why says what is wrong if not.
func bodyAcks(a *route.Ack, body []byte) (ok bool, why string) {
	body = trimBody(body)
	if a.Kind == route.AckBody {
		if string(body) == a.Body {
			return true, ""
		}
		return false, fmt.Sprintf("the body is not %q", a.Body)
	}
	got, err := lookup(body, a.Path)
	path := strings.Join(a.Path, ".")
	if err != nil {
		return false, fmt.Sprintf("want %s=%s in a JSON body: %s", path, a.Value, err)
	}
	if got == a.Value {
		return true, ""
	}
	return false, fmt.Sprintf("%s is %.60q, want %q", path, got, a.Value)
}

// trimBody takes off white space and a byte order mark: some servers' source
// files begin with one, and so do their answers. It says nothing.
func trimBody(b []byte) []byte {
	b = bytes.TrimSpace(b)
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	return bytes.TrimSpace(b)
}

// lookup walks path through a JSON document and spells the scalar it finds. A
// number is spelt as it stands there. Numbers in the path index arrays.
func lookup(doc []byte, path []string) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("the body is no JSON")
	}
	if dec.More() {
		return "", fmt.Errorf("more than one JSON value")
	}
	for i, name := range path {
		at := strings.Join(path[:i+1], ".")
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[name]
			if !ok {
				return "", fmt.Errorf("there is no %s", at)
			}
			v = next
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(x) {
				return "", fmt.Errorf("there is no %s", at)
			}
			v = x[n]
		default:
			return "", fmt.Errorf("there is no %s", at)
		}
	}
	switch x := v.(type) {
	case string:
		return x, nil
	case json.Number:
		return x.String(), nil
	case bool:
		return strconv.FormatBool(x), nil
	case nil:
		return "null", nil
	}
	return "", fmt.Errorf("%s is no string, number, bool or null", strings.Join(path, "."))
}

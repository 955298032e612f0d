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

// needsBody reports whether the acknowledgement rule depends on the answer's body.
func needsBody(a *route.Ack) bool { return len(a.Values) > 0 }

// statusAcks reports whether the status can acknowledge the notice under the rule, ignoring the body.
func statusAcks(a *route.Ack, status int) bool {
	if a.Kind == route.AckStatus {
		return slices.Contains(a.Status, status)
	}
	return status >= 200 && status <= 299
}

// bodyAcks reports whether the body acknowledges the notice under a rule on bodies. If not, why is the
// mismatch, without the secrets.
func bodyAcks(a *route.Ack, body []byte, secrets func() scrubber) (ok bool, why string) {
	body = trimBody(body)
	want := quoted(a.Values)
	if a.Kind == route.AckBody {
		if slices.Contains(a.Values, string(body)) {
			return true, ""
		}
		return false, "the body is not " + want
	}

	find, in := lookup, "a JSON"
	if a.Kind == route.AckXML {
		find, in = lookupXML, "an XML"
	}

	got, err := find(body, a.Path)
	path := strings.Join(a.Path, ".")
	if err != nil {
		return false, fmt.Sprintf("want %s=%s in %s body: %s", path, strings.Join(a.Values, "|"), in, err)
	}
	if slices.Contains(a.Values, got) {
		return true, ""
	}

	return false, fmt.Sprintf("%s is %.60q, want %s", path, secrets().scrub(got), want)
}

// quoted lists texts in an error.
func quoted(texts []string) string {
	out := ""
	for i, t := range texts {
		if i > 0 {
			out += " or "
		}
		out += strconv.Quote(t)
	}

	return out
}

// trimBody removes white space and a byte order mark at the beginning: the source files of some servers start
// with one, and so do their answers.
func trimBody(b []byte) []byte {
	b = bytes.TrimSpace(b)
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	return bytes.TrimSpace(b)
}

// lookup returns the scalar at a path of a JSON document as text. A number keeps its spelling. Numbers in the
// path index arrays.
func lookup(doc []byte, path []string) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("the body is not JSON")
	}
	if dec.More() {
		return "", fmt.Errorf("more than one JSON value")
	}

	for i, name := range path {
		next, ok := child(v, name)
		if !ok {
			return "", fmt.Errorf("%s does not exist", strings.Join(path[:i+1], "."))
		}

		v = next
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

	return "", fmt.Errorf("%s is not a string, number, bool or null", strings.Join(path, "."))
}

// child returns the field of an object, or the element of an array, with that name.
func child(v any, name string) (any, bool) {
	switch x := v.(type) {
	case map[string]any:
		next, ok := x[name]
		return next, ok
	case []any:
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 || n >= len(x) {
			return nil, false
		}

		return x[n], true
	}

	return nil, false
}

package sign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// BodyError says why a scheme that adds its signature to the body cannot sign this one.
type BodyError struct {
	Type bool // the content type is wrong, not the body
	text string
}

func (e *BodyError) Error() string { return e.text }

// InBody returns the scheme in use that adds its signature to the body, empty if none does.
func (s *Settings) InBody() Scheme {
	if i := slices.IndexFunc(s.Schemes, Scheme.InBody); i >= 0 {
		return s.Schemes[i]
	}
	return ""
}

// CheckBody returns a [BodyError] if the scheme [Settings.InBody] cannot sign a body of that content type.
func (s *Settings) CheckBody(body []byte, contentType string) error {
	var err error
	switch scheme := s.InBody(); scheme {
	case Alipay:
		_, err = formText(body, contentType)
	case Sorted, SortedJeepay:
		_, err = sortedText(scheme, body, contentType)
	default:
	}

	return err
}

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json"
)

// checkType checks that a content type is one of those, in UTF-8.
func checkType(contentType string, want ...string) error {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || !slices.Contains(want, media) {
		return &BodyError{Type: true, text: "is not " + strings.Join(want, " or ")}
	}
	if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") {
		return &BodyError{Type: true, text: fmt.Sprintf("has the charset %.40q; want utf-8", c)}
	}

	return nil
}

var (
	errNoForm  = errors.New("is not a form: want name=value pairs joined with &, percent-encoded")
	errNoJSON  = errors.New("is not a JSON object")
	errUTF8    = errors.New("is not UTF-8")
	errCharset = errors.New("has a field charset that is not utf-8")
)

// formFields returns the decoded fields of a form, if check accepts each.
func formFields(body string, check func(name, value string) error) ([][2]string, error) {
	if strings.Contains(body, ";") { // some parsers split there
		return nil, errors.New("has a semicolon that is not percent-encoded")
	}

	var fields [][2]string
	for part := range strings.SplitSeq(body, "&") {
		if part == "" {
			continue
		}

		name, value, _ := strings.Cut(part, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)

		switch {
		case nameErr != nil, valueErr != nil, name == "":
			return nil, errNoForm
		case !utf8.ValidString(name), !utf8.ValidString(value):
			return nil, errUTF8
		}

		if err := check(name, value); err != nil {
			return nil, err
		}

		fields = append(fields, [2]string{name, value})
	}

	return fields, nil
}

// jsonFields returns the members of a JSON object as text, if check accepts each: strings decoded, numbers and bools as
// they are written, null as the empty text.
func jsonFields(body []byte, check func(name, value string) error) ([][2]string, error) {
	if !utf8.Valid(body) {
		return nil, errUTF8
	}

	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') || !json.Valid(body) {
		return nil, errNoJSON
	}

	var fields [][2]string
	for dec.More() {
		name, _ := dec.Token() // the whole body is valid
		value, _ := dec.Token()
		field := [2]string{name.(string)}
		switch v := value.(type) {
		case string:
			field[1] = v
		case json.Number:
			field[1] = v.String()
		case bool:
			field[1] = strconv.FormatBool(v)
		case json.Delim:
			return nil, fmt.Errorf("has an object or array in the member %.60q; want a string, number, bool or null", field[0])
		}

		if err := check(field[0], field[1]); err != nil {
			return nil, err
		}

		fields = append(fields, field)
	}

	return fields, nil
}

func notName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}

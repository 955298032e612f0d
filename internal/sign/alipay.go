package sign

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// alipay is the scheme of Alipay's notifications: the signature is a field of the form.
type alipay struct{ key *Key }

func (s alipay) Sign(m *Message, out *Signed) error {
	text, err := formText(out.Body, m.Type)
	if err != nil {
		return err
	}

	signature, err := s.key.sign(text)
	if err != nil {
		return err
	}

	tail := "&sign_type=RSA2&sign=" + url.QueryEscape(base64.StdEncoding.EncodeToString(signature))
	out.Body = slices.Concat(out.Body, []byte(tail))
	out.explain(m, Alipay, text)
	return nil
}

// FormError says why a body cannot be signed with the scheme alipay.
type FormError struct {
	Type bool // the content type is wrong, not the body
	text string
}

func (e *FormError) Error() string { return e.text }

const formType = "application/x-www-form-urlencoded"

// CheckForm returns a [FormError] if a body of that content type cannot be signed with the
// scheme alipay.
func CheckForm(body []byte, contentType string) error {
	_, err := formText(body, contentType)
	return err
}

// formText returns the text that the scheme alipay signs. It decodes the fields of the form, sorts them by name, and
// joins them as name=value with &. It returns a [FormError] for a form that two receivers could decode differently.
func formText(body []byte, contentType string) ([]byte, error) {
	if err := checkFormType(contentType); err != nil {
		return nil, err
	}

	fields, err := formFields(string(body))
	if err != nil {
		return nil, &FormError{text: err.Error()}
	}

	slices.SortFunc(fields, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	out := make([]byte, 0, len(body))

	for i, f := range fields {
		if i > 0 {
			if f[0] == fields[i-1][0] {
				return nil, &FormError{text: fmt.Sprintf("has the field %.60q more than once", f[0])}
			}
			out = append(out, '&')
		}
		out = append(append(append(out, f[0]...), '='), f[1]...)
	}

	return out, nil
}

func checkFormType(contentType string) error {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != formType {
		return &FormError{Type: true, text: "is not " + formType}
	}
	if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") {
		return &FormError{Type: true, text: fmt.Sprintf("has the charset %.40q; want utf-8", c)}
	}

	return nil
}

var errNoForm = errors.New("is not a form: want name=value pairs joined with &, percent-encoded")

func formFields(body string) ([][2]string, error) {
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
			return nil, errors.New("is not UTF-8")
		case name == "sign", name == "sign_type":
			return nil, fmt.Errorf("has the field %s, which the signature adds", name)
		case name == "charset" && !strings.EqualFold(value, "utf-8"):
			return nil, errors.New("has a field charset that is not utf-8")
		case strings.TrimSpace(value) == "": // some receivers skip such fields, others sign them
			return nil, fmt.Errorf("has no value in the field %.60q; leave the field out", name)
		case strings.ContainsFunc(name, notName): // Alipay's PHP SDK renames or drops the following two
			return nil, fmt.Errorf("has the field %.60q; want a name of letters, digits, '_' and '-'", name)
		case strings.HasPrefix(value, "@"):
			return nil, fmt.Errorf("has a value that begins with @ in the field %.60q, which some receivers drop", name)
		}

		fields = append(fields, [2]string{name, value})
	}

	if len(fields) == 0 {
		return nil, errNoForm
	}

	return fields, nil
}

func notName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}

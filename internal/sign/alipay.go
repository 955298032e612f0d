package sign

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
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

// formText returns the text that the scheme alipay signs. It decodes the fields of the form, sorts them by name, and
// joins them as name=value with &. It returns a [BodyError] for a form that two receivers could decode differently.
func formText(body []byte, contentType string) ([]byte, error) {
	if err := checkType(contentType, formType); err != nil {
		return nil, err
	}

	fields, err := formFields(string(body), alipayField)
	if err != nil {
		return nil, &BodyError{text: err.Error()}
	}
	if len(fields) == 0 {
		return nil, &BodyError{text: errNoForm.Error()}
	}

	slices.SortFunc(fields, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	out := make([]byte, 0, len(body))

	for i, f := range fields {
		if i > 0 {
			if f[0] == fields[i-1][0] {
				return nil, &BodyError{text: fmt.Sprintf("has the field %.60q more than once", f[0])}
			}
			out = append(out, '&')
		}
		out = append(append(append(out, f[0]...), '='), f[1]...)
	}

	return out, nil
}

// alipayField returns an error for a field that receivers of the scheme alipay read in different ways.
func alipayField(name, value string) error {
	switch {
	case name == "sign", name == "sign_type":
		return fmt.Errorf("has the field %s, which the signature adds", name)
	case name == "charset" && !strings.EqualFold(value, "utf-8"):
		return errCharset
	case strings.TrimSpace(value) == "": // some receivers skip such fields, others sign them
		return fmt.Errorf("has no value in the field %.60q; leave the field out", name)
	case strings.ContainsFunc(name, notName): // Alipay's PHP SDK renames or drops the following two
		return fmt.Errorf("has the field %.60q; want a name of letters, digits, '_' and '-'", name)
	case strings.HasPrefix(value, "@"):
		return fmt.Errorf("has a value that begins with @ in the field %.60q, which some receivers drop", name)
	}
	return nil
}

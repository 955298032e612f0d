package sign

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sorted is the scheme of WeChat Pay's API v2, of Jeepay, and of the platforms that follow them: the sorted fields of the body and the key
// are signed, and the signature becomes a field of the body.
type sorted struct {
	scheme Scheme
	key    Secret
	per    Per
}

func (s *sorted) Sign(m *Message, out *Signed) error {
	text, err := sortedText(s.scheme, out.Body, m.Type)
	if err != nil {
		return err
	}

	out.Body = text.appended(out.Body, text.sum(s.key.TextFor(s.per, m.Host, m.Audience).text))
	out.explain(m, s.scheme, text.fields, []byte("&key="+dots))
	return nil
}

// fieldText is the text that a key is appended to, and how the whole is signed.
type fieldText struct {
	fields     []byte
	json, hmac bool
}

// sum returns the signature with the key.
func (t *fieldText) sum(key string) string {
	text := append(slices.Clip(t.fields), "&key="+key...)
	if !t.hmac {
		sum := md5.Sum(text)
		return strings.ToUpper(hex.EncodeToString(sum[:]))
	}

	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(text)
	return strings.ToUpper(hex.EncodeToString(mac.Sum(nil)))
}

// appended returns the body with the signature as its last field.
func (t *fieldText) appended(body []byte, signature string) []byte {
	if !t.json {
		return slices.Concat(body, []byte("&sign="+signature))
	}

	body = bytes.TrimRight(body, " \t\r\n")
	return slices.Concat(body[:len(body)-1], []byte(`,"sign":"`+signature+`"}`))
}

// sortedText returns the text that the scheme signs: the fields that have a value, sorted, as name=value joined with &. It returns a
// [BodyError] for a body that two receivers could read or sort differently.
func sortedText(scheme Scheme, body []byte, contentType string) (*fieldText, error) {
	if err := checkType(contentType, formType, jsonType); err != nil {
		return nil, err
	}

	out := &fieldText{json: strings.HasPrefix(strings.ToLower(strings.TrimSpace(contentType)), jsonType)}
	var fields [][2]string
	var err error
	if out.json {
		fields, err = jsonFields(body, sortedField)
	} else {
		fields, err = formFields(string(body), sortedField)
	}

	if err == nil {
		err = out.sort(scheme, fields)
	}

	if err != nil {
		return nil, &BodyError{text: err.Error()}
	}

	return out, nil
}

// sort sets the text and the algorithm.
func (t *fieldText) sort(scheme Scheme, fields [][2]string) error {
	order, algorithm, twice := func(f [2]string) string { return f[0] }, "sign_type", ""
	if scheme == SortedJeepay { // it sorts the pairs without case: a1=x is before a=x
		order, algorithm = func(f [2]string) string { return strings.ToLower(f[0]) + "=" }, "signType"
		twice = ", perhaps in another case"
	}

	slices.SortFunc(fields, func(a, b [2]string) int { return strings.Compare(order(a), order(b)) })
	for i, f := range fields {
		switch {
		case i > 0 && order(f) == order(fields[i-1]):
			return fmt.Errorf("has the field %.60q more than once%s", f[0], twice)
		case f[0] == algorithm && f[1] != "" && f[1] != "MD5" && f[1] != "HMAC-SHA256":
			return fmt.Errorf("has %.60q in the field %s; want MD5 or HMAC-SHA256", f[1], f[0])
		case f[1] == "":
			continue
		case len(t.fields) > 0:
			t.fields = append(t.fields, '&')
		}

		t.hmac = t.hmac || f[0] == algorithm && f[1] == "HMAC-SHA256"
		t.fields = append(append(append(t.fields, f[0]...), '='), f[1]...)
	}

	if len(t.fields) == 0 {
		return errors.New("has no field with a value to sign")
	}

	return nil
}

func sortedField(name, _ string) error {
	switch {
	case name == "sign":
		return errors.New("has the field sign, which the signature adds")
	case name == "" || strings.ContainsFunc(name, notName) || strings.ContainsAny(name[:1], "-0123456789"): // PHP sorts numbers as such
		return fmt.Errorf("has the field %.60q; want a name of letters, digits, '_' and '-' that begins with a letter or '_'", name)
	}
	return nil
}

// The lengths a text key may have.
const (
	minTextKey = 16
	maxTextKey = 512
)

// ParseTextKey reads the key of the schemes sorted and sorted-jeepay. Its error does not quote it.
func ParseTextKey(s string) (Secret, error) {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }
	if len(s) < minTextKey || len(s) > maxTextKey || strings.ContainsFunc(s, odd) {
		return Secret{}, fmt.Errorf("want %d to %d printable ASCII characters without blanks and commas; openssl rand -hex 16 makes one",
			minTextKey, maxTextKey)
	}

	return Secret{text: s}, nil
}

// TextFor returns the text key of a receiver: the key itself per route, else 32 hexadecimal digits that are derived from it.
func (s Secret) TextFor(per Per, host, audience string) Secret {
	label := per.label(host, audience)
	if label == "" {
		return s
	}

	mac := hmac.New(sha256.New, []byte(s.text))
	mac.Write([]byte(label))
	return Secret{text: hex.EncodeToString(mac.Sum(nil)[:16])}
}

package webhook

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// sorted verifies the field sign of a form or a JSON object.
func (v *Verifier) sorted(body []byte) (Result, error) {
	fields, err := fieldsOf(body)
	if err != nil {
		return Result{}, err
	}

	given, algorithm := fields["sign"], fields["sign_type"]
	order := func(name string) string { return name }
	if v.scheme == SortedJeepay { // it sorts the pairs without case: a1=x is before a=x
		order, algorithm = func(name string) string { return strings.ToLower(name) + "=" }, fields["signType"]
	}

	switch {
	case given == "":
		return Result{}, fmt.Errorf("%w: sign is missing", ErrBody)
	case algorithm != "" && algorithm != "MD5" && algorithm != "HMAC-SHA256":
		return Result{}, fmt.Errorf("%w: the type of the signature is not MD5 or HMAC-SHA256", ErrBody)
	}

	delete(fields, "sign")
	var text strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(fields), func(a, b string) int { return cmp.Compare(order(a), order(b)) }) {
		if fields[name] != "" {
			text.WriteString(name + "=" + fields[name] + "&")
		}
	}

	found := false
	for _, s := range v.secrets {
		found = hmac.Equal([]byte(given), []byte(textSum(text.String()+"key="+s.text, s.text, algorithm == "HMAC-SHA256"))) || found
	}

	if !found {
		return Result{}, ErrSignature
	}

	return Result{}, nil
}

// textSum returns a signature of the schemes sorted and sorted-jeepay.
func textSum(text, key string, byHMAC bool) string {
	if byHMAC {
		return strings.ToUpper(hex.EncodeToString(sum([]byte(key), text, nil)))
	}

	digest := md5.Sum([]byte(text))
	return strings.ToUpper(hex.EncodeToString(digest[:]))
}

// fieldsOf returns the fields of a form, or the members of a JSON object, as text.
func fieldsOf(body []byte) (map[string]string, error) {
	fields := map[string]string{}
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrBody)
	}

	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, fmt.Errorf("%w: it is neither a form nor a JSON object", ErrBody)
		}

		for name, values := range form {
			if fields[name] = values[0]; len(values) > 1 {
				return nil, fmt.Errorf("%w: a field is given twice", ErrBody)
			}
		}

		return fields, nil
	}

	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil || !json.Valid(body) {
		return nil, fmt.Errorf("%w: it is neither a form nor a JSON object", ErrBody)
	}

	for dec.More() {
		name, _ := dec.Token() // the whole body is valid
		value, _ := dec.Token()
		text, ok := textOf(value)
		if _, twice := fields[name.(string)]; twice || !ok {
			return nil, fmt.Errorf("%w: a member is given twice, or is an object or array", ErrBody)
		}

		fields[name.(string)] = text
	}

	return fields, nil
}

// textOf returns a JSON value as it is signed; ok is false for an object or array.
func textOf(value json.Token) (text string, ok bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", value == nil
}

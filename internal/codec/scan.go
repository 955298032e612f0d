package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"
)

// The functions of this file split JSON that was checked before, and keep its bytes.

// CheckJSON returns an error for data that is not JSON.
func CheckJSON(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the JSON text is empty; want a JSON object")
	}
	if !utf8.Valid(data) {
		return errors.New("the text is not UTF-8; give binary data as body_base64")
	}
	if json.Valid(data) {
		return nil
	}

	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("at byte %d: %s", syntax.Offset, syntax.Error())
	}

	return errors.New("not valid JSON")
}

// Kind returns the first byte of a value: one of { [ " t f n - 0-9.
func Kind(value []byte) byte {
	if v := skipSpace(value); len(v) > 0 {
		return v[0]
	}
	return 0
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// valueEnd returns the index after the value at the beginning of b.
func valueEnd(b []byte) int {
	switch b[0] {
	case '"':
		return stringEnd(b)
	case '{', '[':
		level := 0
		for i := 0; i < len(b); i++ {
			switch b[i] {
			case '"':
				i += stringEnd(b[i:]) - 1
			case '{', '[':
				level++
			case '}', ']':
				if level--; level == 0 {
					return i + 1
				}
			}
		}

		return len(b)
	}

	for i := range b {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
	}

	return len(b)
}

func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// members yields the names and the raw values of a valid object, in order.
func members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		b := skipSpace(object)[1:]
		for {
			b = skipSpace(b)
			if len(b) == 0 || b[0] == '}' {
				return
			}

			end := stringEnd(b)
			name := text(b[:end])
			b = skipSpace(b[end:])[1:] // the colon
			b = skipSpace(b)
			end = valueEnd(b)
			if !yield(name, b[:end:end]) {
				return
			}

			if b = skipSpace(b[end:]); len(b) > 0 && b[0] == ',' {
				b = b[1:]
			}
		}
	}
}

// Elements yields the raw elements of a valid array.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		b := skipSpace(array)[1:]
		for {
			b = skipSpace(b)
			if len(b) == 0 || b[0] == ']' {
				return
			}

			end := valueEnd(b)
			if !yield(b[:end:end]) {
				return
			}

			if b = skipSpace(b[end:]); len(b) > 0 && b[0] == ',' {
				b = b[1:]
			}
		}
	}
}

// text decodes a valid string literal.
func text(literal []byte) string {
	inner := literal[1 : len(literal)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}

	var s string
	if err := json.Unmarshal(literal, &s); err != nil {
		return ""
	}

	return s
}

// faithful reports whether text returned the meaning of literal. A decoder silently replaces half of a surrogate pair.
func faithful(literal []byte, decoded string) bool {
	const replacement = "\uFFFD"
	got := bytes.Count([]byte(decoded), []byte(replacement))
	if got == 0 {
		return true
	}

	want := bytes.Count(literal, []byte(replacement)) + bytes.Count(bytes.ToLower(literal), []byte(`\ufffd`))
	return got <= want
}

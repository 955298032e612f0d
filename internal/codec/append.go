package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	"notifier/internal/notice"
)

// Appender is a value that writes itself as JSON.
type Appender interface {
	AppendJSON(b []byte) []byte
}

// Append appends a struct, given by pointer, as a JSON object. It copies a json.RawMessage byte for byte and panics on
// an unknown type, which is a bug.
func Append(b []byte, object any) []byte {
	return appendObject(b, reflect.ValueOf(object).Elem())
}

func appendObject(b []byte, v reflect.Value) []byte {
	b = append(b, '{')
	first := len(b)

	list := planOf(v.Type()).members
	for i := range list {
		m := &list[i]
		field := v.FieldByIndex(m.index)
		if m.omits(field) {
			continue
		}

		if len(b) > first {
			b = append(b, ',')
		}

		b = appendValue(append(b, m.opening...), field)
	}

	return append(b, '}')
}

func appendValue(b []byte, v reflect.Value) []byte {
	switch x := v.Addr().Interface().(type) {
	case Appender:
		return x.AppendJSON(b)
	case *json.RawMessage:
		return append(b, *x...)
	case *[]byte:
		b = base64.StdEncoding.AppendEncode(append(b, '"'), *x)
		return append(b, '"')
	}

	switch v.Kind() {
	case reflect.String:
		return AppendString(b, v.String())
	case reflect.Int:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Pointer:
		return appendValue(b, v.Elem())
	case reflect.Struct:
		return appendObject(b, v)
	case reflect.Slice:
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, v.Index(i))
		}

		return append(b, ']')
	default:
		return AppendAny(b, v.Interface())
	}
}

// AppendString appends a string as JSON.
func AppendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return AppendAny(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// AppendAny appends v in the form of encoding/json, without escapes for HTML. It panics if JSON cannot represent v,
// which is a bug.
func AppendAny(b []byte, v any) []byte {
	buf := bytes.NewBuffer(b)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("codec: " + err.Error())
	}

	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// AppendJSON writes RFC 3339 in UTC with milliseconds.
func (s Stamp) AppendJSON(b []byte) []byte {
	b = time.Time(s).UTC().AppendFormat(append(b, '"'), notice.StampLayout)
	return append(b, '"')
}

// MarshalJSON is AppendJSON for encoding/json.
func (s Stamp) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil), nil }

// AppendJSON writes RFC 3339 in UTC with milliseconds.
func (d Due) AppendJSON(b []byte) []byte { return Stamp(d).AppendJSON(b) }

// AppendJSON writes a Go duration.
func (d Delay) AppendJSON(b []byte) []byte { return AppendString(b, notice.Short(d.Span)) }

// AppendJSON writes a time as Stamp does, or a Go duration.
func (x Expiry) AppendJSON(b []byte) []byte {
	if x.After > 0 {
		return Delay{Span: x.After}.AppendJSON(b)
	}
	return Stamp(x.At).AppendJSON(b)
}

// AppendJSON writes an array of durations.
func (l Ladder) AppendJSON(b []byte) []byte {
	b = append(b, '[')
	for i, d := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, notice.StepText(d))
	}

	return append(b, ']')
}

// AppendJSON writes an array of durations.
func (s Steps) AppendJSON(b []byte) []byte { return Ladder(s).AppendJSON(b) }

// AppendJSON writes an object of strings.
func (h Headers) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for i := range h {
		if i > 0 {
			b = append(b, ',')
		}

		b = AppendString(b, h[i].Name)
		b = AppendString(append(b, ':'), h[i].Value)
	}

	return append(b, '}')
}

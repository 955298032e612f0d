package codec

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
)

// Object checks that data is one JSON object and yields its members. Unknown and repeated members are faults. The error
// describes invalid syntax.
func Object(data []byte, prefix string, known []string, f *Faults, each func(name, at string, raw []byte)) error {
	if err := CheckJSON(data); err != nil {
		return err
	}

	if Kind(data) != '{' {
		f.Add(strings.TrimSuffix(prefix, "."), nil, "want a JSON object")
		return nil
	}

	seen := make([]string, 0, 16)
	for name, raw := range members(data) {
		if f.Full() {
			break
		}

		at := prefix + Clip(name, 60)
		switch {
		case !slices.Contains(known, name):
			f.Add(at, nil, "no such field; the fields are %s", strings.Join(known, ", "))
		case slices.Contains(seen, name):
			f.Add(at, nil, "occurs twice")
		default:
			seen = append(seen, name)
			each(name, at, raw)
		}
	}

	return nil
}

// Read reads a JSON object into a struct, given by pointer. Faults name members with that prefix. Raw members share the
// memory of data. The error describes invalid syntax.
func Read(data []byte, prefix string, object any, f *Faults) error {
	v := reflect.ValueOf(object).Elem()
	p := planOf(v.Type())
	to := target{v, p.members, f}
	return Object(data, prefix, p.names, f, to.read)
}

// Parse reads a JSON object into a struct, given by pointer. It skips members that the struct does not have and accepts
// unknown values of enums, because a newer version may have written them. The first fault is an error.
func Parse(data []byte, object any) error {
	if err := CheckJSON(data); err != nil {
		return err
	}
	if Kind(data) != '{' {
		return errors.New("want a JSON object")
	}

	var f Faults
	v := reflect.ValueOf(object).Elem()
	list := slices.Clone(planOf(v.Type()).members)
	for i := range list {
		list[i].enum = nil
	}

	to := target{v, list, &f}
	for name, raw := range members(data) {
		to.read(name, name, raw)
	}

	return f.err()
}

// target is a struct that is being read.
type target struct {
	v       reflect.Value
	members []member
	faults  *Faults
}

// read reads the member with that name, if the struct has it.
func (t *target) read(name, at string, raw []byte) {
	for i := range t.members {
		if m := &t.members[i]; m.name == name {
			m.read(t.v.FieldByIndex(m.index), at, raw, t.faults)
			return
		}
	}
}

// reader is a value that reads itself from JSON and adds a fault if the JSON is invalid.
type reader interface {
	read(f *Faults, at string, raw []byte)
}

// read reads a member's value.
func (m *member) read(v reflect.Value, at string, raw []byte, f *Faults) {
	switch x := v.Addr().Interface().(type) {
	case reader:
		x.read(f, at, raw)
		return
	case *json.RawMessage:
		*x = raw
		return
	case *[]byte:
		*x = Base64Field(f, at, raw)
		return
	}

	switch v.Kind() {
	case reflect.String:
		s := StringField(f, at, raw)
		if v.SetString(s); m.enum != nil && Kind(raw) == '"' && !slices.Contains(m.enum, s) {
			f.Add(at, Shown(raw), "want %s", orOf(m.enum))
		}
	case reflect.Int:
		v.SetInt(int64(CountField(f, at, raw, m.least)))
	case reflect.Bool:
		v.SetBool(BoolField(f, at, raw))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.read(v.Elem(), at, raw, f)
	case reflect.Slice:
		m.readList(v, at, raw, f)
	default:
		panic("codec: cannot read a member of type " + v.Type().String()) // a bug
	}
}

func (m *member) readList(v reflect.Value, at string, raw []byte, f *Faults) {
	if Kind(raw) != '[' {
		f.Add(at, Shown(raw), "want an array")
		return
	}

	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	element := reflect.New(v.Type().Elem()).Elem()
	for one := range Elements(raw) {
		m.read(element, at, one, f)
		v.Set(reflect.Append(v, element))
	}
}

// orOf joins words: a, b or c.
func orOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}

	return strings.Join(words[:last], ", ") + " or " + words[last]
}

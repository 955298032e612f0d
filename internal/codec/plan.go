package codec

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// member describes a field of a struct that is a member of a JSON object.
type member struct {
	name      string
	opening   string // `"name":`
	index     []int
	omitEmpty bool
	omitZero  bool
	least     int      // the tag minimum
	enum      []string // the tag enum
}

// plan lists the members of a struct in the order of its fields, with the members of embedded structs.
type plan struct {
	members []member
	names   []string
}

var plans sync.Map // of *plan by reflect.Type

func planOf(t reflect.Type) *plan {
	if known, ok := plans.Load(t); ok {
		p, _ := known.(*plan)
		return p
	}

	p := &plan{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" {
			continue
		}

		m := member{name: name, opening: strconv.Quote(name) + ":", index: f.Index}
		m.omitEmpty, m.omitZero = options == "omitempty", options == "omitzero"
		m.least, _ = strconv.Atoi(f.Tag.Get("minimum"))
		if enum := f.Tag.Get("enum"); enum != "" {
			m.enum = strings.Split(enum, ",")
		}

		p.members, p.names = append(p.members, m), append(p.names, name)
	}

	plans.Store(t, p)
	return p
}

// omits reports whether the member is not written for this value.
func (m *member) omits(v reflect.Value) bool {
	if m.omitZero {
		return v.IsZero()
	}
	if !m.omitEmpty {
		return false
	}

	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

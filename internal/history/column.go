package history

import (
	"time"
)

// rowReader reads the columns of one row. Another program may have written a column of an unexpected type.
// Such a column becomes a zero value and its name is recorded, so that it does not hide the other rows.
type rowReader struct {
	names   []string
	values  []any
	next    int
	damaged []string
}

func newRowReader(names []string) *rowReader {
	return &rowReader{names: names, values: make([]any, len(names))}
}

// targets returns the destinations of a Scan for the columns, after the given ones.
func (r *rowReader) targets(before ...any) []any {
	for i := range r.values {
		before = append(before, &r.values[i])
	}
	return before
}

func (r *rowReader) take() any {
	v := r.values[r.next]
	r.next++
	return v
}

// damage records the name of the last column read.
func (r *rowReader) damage() { r.damaged = append(r.damaged, r.names[r.next-1]) }

func (r *rowReader) text() string {
	switch v := r.take().(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}

	r.damage()
	return ""
}

// optionalText returns nil for NULL.
func (r *rowReader) optionalText() *string {
	if r.values[r.next] == nil {
		r.next++
		return nil
	}

	s := r.text()
	return &s
}

// optionalBytes returns nil for NULL.
func (r *rowReader) optionalBytes() []byte {
	switch v := r.take().(type) {
	case nil:
		return nil
	case []byte:
		return v
	case string:
		return []byte(v)
	}

	r.damage()
	return nil
}

func (r *rowReader) number() int64 {
	if v, ok := r.take().(int64); ok {
		return v
	}

	r.damage()
	return 0
}

func (r *rowReader) time() time.Time {
	var m moment
	if m.Scan(r.take()) != nil {
		r.damage()
	}

	return m.Time
}

package store

import (
	"strconv"
	"sync"
)

// args gathers the arguments of a script. They share one piece of memory: what
// a notice takes of them costs no allocation of its own.
type args struct {
	buf  []byte
	ends []int
}

var spareArgs = sync.Pool{New: func() any { return new(args) }}

// newArgs begins with the given ones; free gives the memory back for the next
// call.
func newArgs(parts ...string) *args {
	a := spareArgs.Get().(*args)
	for _, s := range parts {
		a.text(s)
	}
	return a
}

// mostSpare is what a large call may leave in memory for the next ones, in
// bytes.
const mostSpare = 256 << 10

func (a *args) free() {
	if cap(a.buf) > mostSpare {
		return
	}
	a.buf, a.ends = a.buf[:0], a.ends[:0]
	spareArgs.Put(a)
}

// end ends the argument that was appended to buf.
func (a *args) end() { a.ends = append(a.ends, len(a.buf)) }

func (a *args) text(s string) {
	a.buf = append(a.buf, s...)
	a.end()
}

func (a *args) number(n int64) {
	a.buf = strconv.AppendInt(a.buf, n, 10)
	a.end()
}

// list is what go-redis takes. It shares nothing with a, or nobody gets the
// memory after it.
func (a *args) list() []any {
	list := make([]any, len(a.ends))
	from := 0
	if cap(a.buf) > mostSpare { // too much to have twice
		for i, to := range a.ends {
			list[i] = a.buf[from:to:to]
			from = to
		}
		return list
	}
	// Pointers, because each string in an interface would be an allocation.
	whole := string(a.buf)
	parts := make([]string, len(a.ends))
	for i, to := range a.ends {
		parts[i] = whole[from:to]
		list[i] = &parts[i]
		from = to
	}
	return list
}

package wire

import (
	"strconv"
	"sync"
)

// Args collects the arguments of a script in one block of memory, so that no argument needs its own
// allocation.
type Args struct {
	Buf  []byte
	ends []int
}

var spareArgs = sync.Pool{New: func() any { return new(Args) }}

// NewArgs begins with the given ones; Free gives the memory back for the next
// call.
func NewArgs(parts ...string) *Args {
	a := spareArgs.Get().(*Args)
	for _, s := range parts {
		a.Text(s)
	}

	return a
}

// mostSpare is the maximum size of a large call's memory that is kept for later calls, in bytes.
const mostSpare = 256 << 10

// Free gives the memory back. a is not used afterwards.
func (a *Args) Free() {
	if cap(a.Buf) > mostSpare {
		return
	}

	a.Buf, a.ends = a.Buf[:0], a.ends[:0]
	spareArgs.Put(a)
}

// End ends the argument that was appended to Buf.
func (a *Args) End() { a.ends = append(a.ends, len(a.Buf)) }

// Text appends an argument.
func (a *Args) Text(s string) {
	a.Buf = append(a.Buf, s...)
	a.End()
}

// Number appends a whole number.
func (a *Args) Number(n int64) {
	a.Buf = strconv.AppendInt(a.Buf, n, 10)
	a.End()
}

// List returns the arguments for go-redis. The list shares no memory with a; otherwise a's memory
// could not be reused.
func (a *Args) List() []any {
	list := make([]any, len(a.ends))
	from := 0
	if cap(a.Buf) > mostSpare { // too much to have twice
		for i, to := range a.ends {
			list[i] = a.Buf[from:to:to]
			from = to
		}
		return list
	}

	// Pointers, because each string in an interface would be an allocation.
	whole := string(a.Buf)
	parts := make([]string, len(a.ends))
	for i, to := range a.ends {
		parts[i] = whole[from:to]
		list[i] = &parts[i]
		from = to
	}

	return list
}

// Texts returns strings as arguments of a command or script.
func Texts(list []string) []any {
	args := make([]any, len(list))
	for i := range list {
		args[i] = list[i]
	}

	return args
}

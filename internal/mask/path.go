package mask

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// step is one of a path: a name, an index, or any; deep is at any depth.
type step struct {
	name  string
	index int // noIndex = a name
	any   bool
	deep  bool
}

type path []step

// The longest path, and the most of them.
const (
	maxSteps = 32
	maxPaths = 100
)

// parsePath reads $.a.b, a.b, a[*].b, a[0], $..b, "a.*.b".
func parsePath(s string) (path, error) {
	rest := strings.TrimPrefix(strings.TrimSpace(s), "$")
	if rest != "" && rest[0] != '.' && rest[0] != '[' {
		rest = "." + rest
	}

	var p path
	for rest != "" {
		var st step
		var err error
		if st, rest, err = nextStep(rest); err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		if p = append(p, st); len(p) > maxSteps {
			return nil, fmt.Errorf("%q has more than %d steps", s, maxSteps)
		}
	}

	if len(p) == 0 {
		return nil, errors.New("a path is empty; want one such as $.card.number")
	}

	return p, nil
}

// nextStep reads one step, that begins with a dot or a bracket.
func nextStep(rest string) (st step, left string, err error) {
	st.index = noIndex
	if rest[0] == '.' {
		rest = rest[1:]
		if strings.HasPrefix(rest, ".") {
			st.deep, rest = true, rest[1:]
		}

		if !strings.HasPrefix(rest, "[") {
			return nameStep(st, rest)
		}
	}

	inner, after, ok := strings.Cut(rest[1:], "]")
	n, nerr := strconv.Atoi(inner)

	switch {
	case !ok:
		return st, "", errors.New("a bracket is not closed")
	case inner == "*":
		st.any = true
	case nerr == nil && n >= 0:
		st.index = n
	case isQuotedName(inner):
		st.name = inner[1 : len(inner)-1]
	default:
		return st, "", errors.New("want [*], [0] or ['name'] in brackets")
	}

	return st, after, nil
}

// Indexes that are none.
const (
	noIndex  = -1 // a name
	anyIndex = -2 // an element whose index is not known, as in items[]
)

// fits reports whether the step is the one to a member or an element.
func (s step) fits(name string, index int) bool {
	switch {
	case s.any:
		return true
	case s.index >= 0:
		return index == s.index || index == anyIndex
	}
	return index == noIndex && strings.EqualFold(name, s.name)
}

// lastName returns the last name of a path; empty if it has none.
func (p path) lastName() string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].index < 0 && !p[i].any {
			return p[i].name
		}
	}
	return ""
}

// trail is the position of a walk on the paths: for each path, the steps that may be next.
type trail []mark

type mark struct {
	path path
	next int
}

// has reports whether a mark is on the trail.
func (t trail) has(m mark) bool {
	return slices.ContainsFunc(t, func(o mark) bool { return o.next == m.next && &o.path[0] == &m.path[0] })
}

// down is the trail one level deeper; hit says that a path has come to its end. A
// mark is there once: $..a..b would have one more at each a that is in another.
func (t trail) down(name string, index int) (deeper trail, hit bool) {
	for _, m := range t {
		st := m.path[m.next]
		if st.deep && !deeper.has(m) {
			deeper = append(deeper, m)
		}

		if !st.fits(name, index) {
			continue
		}
		if m.next+1 == len(m.path) {
			return nil, true
		}

		if after := (mark{m.path, m.next + 1}); !deeper.has(after) {
			deeper = append(deeper, after)
		}
	}

	return deeper, false
}

// join returns the union of two trails.
func (t trail) join(other trail) trail {
	if len(other) == 0 {
		return t
	}

	out := append(trail(nil), t...)
	for _, m := range other {
		if !out.has(m) {
			out = append(out, m)
		}
	}

	return out
}

// maxSegments of a flattened name. A longer one is hidden.
const maxSegments = 64

// member is the trail of a member's value. A flattened name, such as card[number],
// card.number or items[].cvv, is also read as a path.
func (t trail) member(name string) (deeper trail, hit bool) {
	if deeper, hit = t.down(name, noIndex); hit || !strings.ContainsAny(name, ".[]") {
		return deeper, hit
	}

	segments := strings.FieldsFunc(strings.ReplaceAll(name, "[]", ".#"), func(c rune) bool { return strings.ContainsRune(".[]", c) })
	if len(segments) > maxSegments {
		return nil, true
	}

	flat := t
	for _, s := range segments {
		if flat, hit = flat.segment(strings.Trim(s, `'" `)); hit {
			return nil, true
		}
	}

	return deeper.join(flat), false
}

// segment is the trail below one segment of a flattened name: a name, or the index of
// an element.
func (t trail) segment(s string) (deeper trail, hit bool) {
	index := anyIndex
	if s != "#" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return t.down(s, noIndex)
		}

		index = n
	}

	named, hit := t.down(s, noIndex)
	if hit {
		return nil, true
	}

	element, hit := t.down("", index)
	return named.join(element), hit
}

// nameStep reads a name, up to the next dot or bracket.
func nameStep(st step, rest string) (step, string, error) {
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}

	if st.name = rest[:end]; st.name == "" || strings.ContainsAny(st.name, "]'\" ") {
		return st, "", errors.New("a name is missing or wrong; want a path such as $.card.number, items[*].cvv or $..pan")
	}

	st.any = st.name == "*"
	return st, rest[end:], nil
}

// isQuotedName reports whether a text is a name in single or double quotes.
func isQuotedName(s string) bool {
	return len(s) > 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0]
}

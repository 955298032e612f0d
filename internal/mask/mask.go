package mask

import (
	"errors"
	"strings"
)

// Hidden replaces a hidden value.
const Hidden = "•••"

// Rules are the paths to hide. Nil and the zero value hide nothing. Rules may be used
// by many goroutines at once.
type Rules struct {
	all   bool
	paths []path
	start trail
}

// New makes rules: all hides every body and answer; paths is a list of them,
// comma-separated. The error names the wrong path.
func New(all bool, paths string) (*Rules, error) {
	r := &Rules{all: all}
	for part := range strings.SplitSeq(paths, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}

		p, err := parsePath(part)
		if err != nil {
			return nil, err
		}

		r.paths = append(r.paths, p)
		r.start = append(r.start, mark{path: p})
	}

	if len(r.paths) > maxPaths {
		return nil, errors.New("more than 100 paths")
	}

	return r, nil
}

// None reports whether nothing is hidden.
func (r *Rules) None() bool { return r == nil || !r.all && len(r.paths) == 0 }

// All reports whether bodies are hidden whole.
func (r *Rules) All() bool { return r != nil && r.all }

// names reports whether a text contains the name of a hidden member, in any spelling.
// A path without a name, such as $.*, may lead to anything.
func (r *Rules) names(text string) bool {
	text, ok := plain(text)
	if !ok {
		return true
	}

	for _, p := range r.paths {
		if name := p.lastName(); name == "" || strings.Contains(text, strings.ToLower(name)) {
			return true
		}
	}

	return false
}

// structure is the punctuation between a name and its value.
const structure = "=:<>{[(&%\\"

// assigns reports whether a text contains both the name of a hidden member and
// punctuation that could lead from the name to a value.
func (r *Rules) assigns(text, punctuation string) bool {
	return strings.ContainsAny(text, punctuation) && r.names(text)
}

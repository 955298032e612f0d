package store

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"notifier/internal/wire"
)

//go:embed lua/lib/*.lua lua/lib/*/*.lua
var library embed.FS

const (
	parts  = "-- PARTS "   // the start of each line of a script that names its parts
	inside = "-- INSIDE\n" // the line of a part whose place the parts in its folder take
)

// WithParts returns a script with its [Parts].
func WithParts(source string) string { return Parts(source) + source }

// Parts returns the parts of lua/lib that a script's lines PARTS name, in that order. A part that needs another one says so.
// A script contains no other part, because Redis creates all functions of a script at each call. "a/b" is code inside part a,
// which stands there only if the script names it. If only part b exists, that is its code: so its functions are created when a is
// called, and not in scripts that could call it and do not.
func Parts(source string) string {
	var names []string
	for line := range strings.Lines(source) {
		if list, ok := strings.CutPrefix(line, parts); ok {
			names = append(names, strings.Fields(list)...)
		}
	}

	if len(names) == 0 {
		return ""
	}

	return wire.Prelude(joined(names))
}

// joined returns the parts of these names.
func joined(names []string) string {
	var outer, inner strings.Builder
	for i, name := range names {
		if strings.Contains(name, "/") {
			continue
		}

		inner.Reset()
		for _, in := range names[i+1:] {
			if strings.HasPrefix(in, name+"/") {
				inner.WriteString(part(in))
			}
		}

		outer.WriteString(strings.Replace(part(name), inside, inner.String(), 1))
	}

	return outer.String()
}

// part returns a file of lua/lib.
func part(name string) string {
	text, err := library.ReadFile("lua/lib/" + name + ".lua")
	if errors.Is(err, fs.ErrNotExist) {
		text, err = library.ReadFile("lua/lib/" + path.Base(name) + ".lua")
	}

	if err != nil {
		panic(fmt.Sprintf("a script names an unknown part: %v", err)) // the scripts are package variables: each test finds it
	}

	return string(text)
}

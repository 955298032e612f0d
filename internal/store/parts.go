package store

import (
	"embed"
	"fmt"
	"strings"

	"notifier/internal/wire"
)

//go:embed lua/lib/*.lua
var library embed.FS

// parts is the start of the line of a script that names its parts.
const parts = "-- PARTS "

// WithParts returns a script with its [Parts].
func WithParts(source string) string { return Parts(source) + source }

// Parts returns the parts of lua/lib that a script's line PARTS names, in that order. A part that needs another one says so.
// A script contains no other part, because Redis creates all functions of a script at each call.
func Parts(source string) string {
	_, line, ok := strings.Cut("\n"+source, "\n"+parts)
	if !ok {
		return ""
	}

	line, _, _ = strings.Cut(line, "\n")
	var b strings.Builder
	for _, name := range strings.Fields(line) {
		b.WriteString(wire.Prelude(part(name)))
	}

	return b.String()
}

// part returns a file of lua/lib.
func part(name string) string {
	text, err := library.ReadFile("lua/lib/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("a script names an unknown part: %v", err)) // the scripts are package variables: each test finds it
	}

	return string(text)
}

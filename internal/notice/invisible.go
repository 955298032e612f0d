package notice

import (
	"unicode"
	"unicode/utf8"
)

// Invisible reports whether a rune is a control character, changes the direction of text, or has no width. Escaping does
// not remove such runes. Line feeds and tabs are none.
func Invisible(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

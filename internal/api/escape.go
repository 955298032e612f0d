package api

import (
	"bytes"
	"fmt"
	"unicode"
)

// escapeHidden escapes control characters, and characters that change the direction of text, in JSON. Otherwise they
// could make a terminal show a forged answer. The result is valid JSON with the same meaning.
func escapeHidden(data []byte) []byte {
	if bytes.IndexFunc(data, isHidden) < 0 {
		return data
	}

	// They occur only inside strings of the JSON.
	out := make([]byte, 0, len(data)+64)
	for _, c := range string(data) {
		if isHidden(c) {
			out = fmt.Appendf(out, `\u%04x`, c)
		} else {
			out = append(out, string(c)...)
		}
	}

	return out
}

// hiddenText reports whether a text contains a character that escapeHidden escapes.
func hiddenText(text []byte) bool { return bytes.IndexFunc(text, isHidden) >= 0 }

// isHidden reports whether a character is a control character but for white space, or
// a direction mark.
func isHidden(c rune) bool {
	if c < 0x7f {
		return c < ' ' && c != '\n' && c != '\t' && c != '\r'
	}
	return c < 0xa0 || c > 0x600 && unicode.Is(unicode.Bidi_Control, c)
}

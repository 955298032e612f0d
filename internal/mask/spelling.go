package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// leastSecret is the least length, in bytes, of a hidden value that is also hidden
// elsewhere. Shorter values, such as 1 or no, occur in any text.
const leastSecret = 4

// leastSqueezed is the least number of letters and digits that are recognised with
// other punctuation between them, as in 4111-1111-1111-1111.
const leastSqueezed = 8

// Bounds of the search for hidden values. Beyond any of them the text is hidden.
const (
	maxSecrets = 1000
	maxWork    = 64 << 20 // bytes of text times hidden values
	maxEscapes = 8        // escapes of escapes
)

// secrets are hidden values, and the spellings in which a text may repeat them.
type secrets struct {
	values   []string
	known    map[string]bool
	over     bool // more than maxSecrets
	spelled  []spelling
	replacer *strings.Replacer
}

// spelling has the forms of one hidden value that a search compares. Empty ones are
// skipped.
type spelling struct {
	low, plain, squeezed, hex string
	base64                    [3]string // at each of the three alignments
}

// add records a hidden value.
func (s *secrets) add(value string) {
	value = strings.ToValidUTF8(value, "\ufffd")
	if s.over || !tells(value) || s.known[value] {
		return
	}

	if len(s.values) == maxSecrets {
		s.over = true
		return
	}

	if s.known == nil {
		s.known = map[string]bool{}
	}

	s.known[value] = true
	s.values = append(s.values, value)

	if trimmed := strings.TrimSpace(value); trimmed != value {
		s.add(trimmed)
	}

	for _, other := range otherNumbers(value) {
		s.add(other)
	}
}

// tells reports whether a value is worth looking for.
func tells(value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "null":
		return false
	}
	return len(value) >= leastSecret && strings.Trim(value, "•") != ""
}

// otherNumbers are other spellings of a number.
func otherNumbers(value string) []string {
	const long = 40
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || len(value) > long || strings.Trim(value, "+-.eE0123456789") != "" {
		return nil
	}

	scientific := strconv.FormatFloat(n, 'e', -1, 64)
	out := []string{scientific, strings.Replace(scientific, "e+", "e", 1)}
	if decimal := strconv.FormatFloat(n, 'f', -1, 64); len(decimal) <= long {
		out = append(out, decimal)
	}

	return out
}

// prepare computes the spellings, once all values are added.
func (s *secrets) prepare() {
	slices.SortFunc(s.values, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	var pairs []string
	for _, v := range s.values {
		s.spelled = append(s.spelled, spell(v))
		for _, form := range escaped(v) {
			pairs = append(pairs, form, Hidden)
		}
	}

	s.replacer = strings.NewReplacer(pairs...)
}

// escaped are the common spellings of a value, which are replaced in place.
func escaped(v string) []string {
	out := []string{v, url.QueryEscape(v), url.PathEscape(v), html.EscapeString(v), strings.ReplaceAll(v, `"`, "&quot;")}
	if quoted, err := json.Marshal(v); err == nil {
		out = append(out, string(quoted[1:len(quoted)-1]))
	}

	out = append(out, strings.ReplaceAll(strings.ReplaceAll(v, `\`, `\\`), `"`, `\"`))
	return out
}

func spell(v string) spelling {
	low := lower(v)
	out := spelling{low: low, hex: hex.EncodeToString([]byte(v))}
	if text, ok := plain(v); ok && len(text) >= leastSecret && text != low {
		out.plain = text
	}

	if text := squeeze(low); utf8.RuneCountInString(text) >= leastSqueezed {
		out.squeezed = text
	}

	for shift := range out.base64 {
		out.base64[shift] = inBase64(v, shift)
	}

	return out
}

// inBase64 is the part of a base64 text that depends on a value alone, if the value
// begins shift bytes after a group of three.
func inBase64(v string, shift int) string {
	text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), v...))
	from := []int{0, 2, 3}[shift] // characters that depend on the bytes before
	to := (shift + len(v)) * 8 / 6
	return text[from:to]
}

// in reports whether a text contains a hidden value, in any spelling.
func (s *secrets) in(text string) bool {
	switch {
	case s.over:
		return true
	case len(s.values) == 0:
		return false
	case len(s.values)*len(text) > maxWork:
		return true
	}

	text = strings.ToValidUTF8(text, "\ufffd")
	for range maxEscapes {
		if s.at(text) {
			return true
		}

		next := unescape(text)
		if next == text {
			return false
		}

		text = next
	}

	return true
}

// at reports whether a text contains a hidden value without further escapes.
func (s *secrets) at(text string) bool {
	low, coded := lower(text), standardBase64(text)
	squeezed := squeeze(low)
	for i := range s.spelled {
		v := &s.spelled[i]
		switch {
		case strings.Contains(low, v.low), strings.Contains(low, v.hex),
			v.plain != "" && strings.Contains(low, v.plain),
			v.squeezed != "" && strings.Contains(squeezed, v.squeezed):
			return true
		}

		for _, b := range v.base64 {
			if strings.Contains(coded, b) {
				return true
			}
		}
	}

	return false
}

// replace hides the plain and escaped occurrences in a text.
func (s *secrets) replace(text string) string {
	if len(s.values) == 0 || s.over || len(s.values)*len(text) > maxWork {
		return text // in hides it
	}
	return s.replacer.Replace(text)
}

// replaceTail also hides the beginning of a value at the end of a text, which may have
// been cut there.
func (s *secrets) replaceTail(text string) string {
	for _, v := range s.values {
		for n := min(len(v)-1, len(text)); n >= leastSecret; n-- {
			if strings.HasSuffix(text, v[:n]) {
				return text[:len(text)-n] + Hidden
			}
		}
	}
	return text
}

// lower is a text for comparisons: in a query a plus is a space.
func lower(text string) string { return strings.ReplaceAll(strings.ToLower(text), "+", " ") }

// plain is a text in lower case without any escapes; ok is false if there are too many
// escapes of escapes.
func plain(text string) (out string, ok bool) {
	for range maxEscapes {
		next := unescape(text)
		if next == text {
			return lower(text), true
		}

		text = next
	}
	return "", false
}

// squeeze leaves letters and digits only.
func squeeze(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return c
		}
		return -1
	}, text)
}

// standardBase64 writes the url alphabet as the standard one.
func standardBase64(text string) string {
	return strings.NewReplacer("-", "+", "_", "/").Replace(text)
}

// unescape decodes one level of the escapes of HTML, urls and JSON. It leaves all other
// bytes unchanged.
func unescape(text string) string {
	if strings.ContainsRune(text, '&') {
		text = html.UnescapeString(text)
	}

	if !strings.ContainsAny(text, `%\`) {
		return text
	}

	var out strings.Builder
	for text != "" {
		plain, size := unescapeFirst(text)
		out.WriteString(plain)
		text = text[size:]
	}

	return strings.ToValidUTF8(out.String(), "\ufffd")
}

// unescapeFirst is the first byte or escape of a text, and its length there.
func unescapeFirst(text string) (plain string, size int) {
	if text[0] != '%' && text[0] != '\\' || len(text) == 1 {
		return text[:1], 1
	}

	if text[0] == '%' {
		if b, ok := hexDigits(text[1:], 2); ok {
			return string([]byte{byte(b)}), 3
		}
		return text[:1], 1
	}

	switch c := text[1]; c {
	case 'u':
		return unescapeUnicode(text)
	case 'x':
		if b, ok := hexDigits(text[2:], 2); ok {
			return string([]byte{byte(b)}), 4
		}
	case 'n', 't', 'r', 'b', 'f':
		return map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f"}[c], 2
	case '"', '\\', '/', '\'':
		return text[1:2], 2
	}

	return text[:1], 1
}

// unescapeUnicode reads \uXXXX, and two of them for a character beyond the first plane.
func unescapeUnicode(text string) (plain string, size int) {
	first, ok := hexDigits(text[2:], 4)
	if !ok {
		return text[:1], 1
	}

	if utf16.IsSurrogate(first) && strings.HasPrefix(text[6:], `\u`) {
		if second, ok := hexDigits(text[8:], 4); ok {
			if c := utf16.DecodeRune(first, second); c != utf8.RuneError {
				return string(c), 12
			}
		}
	}

	return string(first), 6
}

// hexDigits reads so many hexadecimal digits.
func hexDigits(text string, n int) (rune, bool) {
	if len(text) < n {
		return 0, false
	}

	v, err := strconv.ParseUint(text[:n], 16, 32)
	return rune(v), err == nil
}

package ui

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"notifier/internal/problems"
)

// The marks begin the messages that are texts of doctor, and faults of recurring notices.
const (
	findingMark = "finding|"
	faultMark   = "fault|"
)

// textPattern matches a text of another package.
type textPattern struct {
	message string // of messages.txt
	re      *regexp.Regexp
	literal int // bytes of the text besides its variable parts
}

var (
	findingPatterns = sync.OnceValue(func() []textPattern { return patternsOf(findingMark) })
	faultPatterns   = sync.OnceValue(func() []textPattern { return patternsOf(faultMark) })
)

// patternsOf returns the patterns of all messages with a mark, the longest texts first.
func patternsOf(mark string) (list []textPattern) {
	for message := range chinese.texts {
		if !strings.HasPrefix(message, mark) {
			continue
		}

		text := problems.Bare(message)
		re := strings.ReplaceAll(regexp.QuoteMeta(text), "%s", "(.+?)")
		list = append(list, textPattern{message, regexp.MustCompile("(?s)^" + re + "$"), len(text) - 2*strings.Count(text, "%s")})
	}

	slices.SortFunc(list, func(a, b textPattern) int {
		return cmp.Or(b.literal-a.literal, strings.Compare(a.message, b.message))
	})
	return list
}

// finding returns a text of doctor, and whether it can be translated.
func finding(s string) (said text, known bool) { return matched(s, findingPatterns()) }

// matched returns a text of another package, and whether it can be translated. Parts that match a pattern themselves are translated
// too, other parts stay as they are.
func matched(s string, patterns []textPattern) (said text, known bool) {
	for _, p := range patterns {
		parts := p.re.FindStringSubmatch(s)
		if parts == nil {
			continue
		}

		said = text{p.message}
		for _, part := range parts[1:] {
			inner, _ := matched(part, patterns)
			said = append(said, inner)
		}

		return said, true
	}

	return plain(s), false
}

package ui

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"notifier/internal/problems"
)

// findingMark begins the messages that are texts of doctor.
const findingMark = "finding|"

// findingPattern matches a text of doctor.
type findingPattern struct {
	message string // of messages.txt
	re      *regexp.Regexp
	literal int // bytes of the text besides its variable parts
}

// findingPatterns are the patterns of all messages, the longest texts first.
var findingPatterns = sync.OnceValue(func() (list []findingPattern) {
	for message := range chinese.texts {
		if !strings.HasPrefix(message, findingMark) {
			continue
		}

		text := problems.Bare(message)
		re := strings.ReplaceAll(regexp.QuoteMeta(text), "%s", "(.+?)")
		list = append(list, findingPattern{message, regexp.MustCompile("(?s)^" + re + "$"), len(text) - 2*strings.Count(text, "%s")})
	}

	slices.SortFunc(list, func(a, b findingPattern) int {
		return cmp.Or(b.literal-a.literal, strings.Compare(a.message, b.message))
	})
	return list
})

// finding returns a text of doctor, and whether it can be translated. Parts that are texts of doctor themselves are translated
// too, other parts stay as they are.
func finding(s string) (said text, known bool) {
	for _, p := range findingPatterns() {
		parts := p.re.FindStringSubmatch(s)
		if parts == nil {
			continue
		}

		said = text{p.message}
		for _, part := range parts[1:] {
			inner, _ := finding(part)
			said = append(said, inner)
		}

		return said, true
	}

	return plain(s), false
}

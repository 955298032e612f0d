package history

import (
	"encoding/json"
	"strings"
	"testing"

	"notifier/internal/notice"
)

// FuzzColumns checks that any text in the JSON columns, which another program or a restored dump may have
// written, is read or ignored, and can be shown.
func FuzzColumns(f *testing.F) {
	for _, s := range []string{"[]", "", "null", `[{"n":1,"at":"2026-11-22T00:00:00.000Z","status":200,"duration_ms":1.5,"response":"ok"}]`,
		`[["A","b"],["Secret"],[],["a","b","c"]]`,
		`[{"n":1,"at":"2026-11-24T00:00:00Z","duration_ms":1,"resend":2,"resent":3}]`,
		`[{"resend":2,"resent":3}]`, `[{"n":-1,"duration_ms":1e300,"at":"x"}]`, `[{"duration_ms":-5}]`, `[null]`, `[[null]]`, "\xff", strings.Repeat("[", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := &notice.Notice{Endings: 3}
		readAttempts(readerOf(s), n)
		attempts := n.Attempts
		if n.Resend < 0 || n.Resend > n.Resent || n.Resent > n.Endings {
			t.Fatalf("resent %d times, last after ending %d", n.Resend, n.Resent)
		}
		for _, a := range attempts {
			if a.Duration < 0 {
				t.Fatalf("an attempt that took %s", a.Duration)
			}
			if _, err := json.Marshal(notice.Stamp(a.At)); err != nil {
				t.Fatal(err)
			}
		}
		again := &notice.Notice{Endings: 3}
		readAttempts(readerOf(attemptsText(n)), again)
		if len(again.Attempts) != len(attempts) || again.Resend != n.Resend || again.Resent != n.Resent {
			t.Fatalf("written %+v, read %+v", n, again)
		}
		if headers, withheld := readHeaders(readerOf(s)); len(withheld) > len(headers) {
			t.Fatalf("%d headers, of which %d are withheld", len(headers), len(withheld))
		}
	})
}

// readerOf returns a reader of a row with one column.
func readerOf(text string) *rowReader {
	return &rowReader{names: []string{"text"}, values: []any{text}}
}

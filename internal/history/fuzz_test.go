package history

import (
	"encoding/json"
	"strings"
	"testing"

	"notifier/internal/notice"
)

// FuzzColumns: what stands in the columns that hold JSON, where another program or a
// restored dump has written it, is read or is nothing, and can be shown.
func FuzzColumns(f *testing.F) {
	for _, s := range []string{"[]", "", "null", `[{"n":1,"at":"2026-11-22T00:00:00.000Z","status":200,"duration_ms":1.5,"response":"ok"}]`,
		`[["A","b"],["Secret"],[],["a","b","c"]]`,
		`[{"n":-1,"duration_ms":1e300,"at":"x"}]`, `[{"duration_ms":-5}]`, `[null]`, `[[null]]`, "\xff", strings.Repeat("[", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		attempts := readAttempts(readerOf(s))
		for _, a := range attempts {
			if a.Duration < 0 {
				t.Fatalf("an attempt that took %s", a.Duration)
			}
			if _, err := json.Marshal(notice.Stamp(a.At)); err != nil {
				t.Fatal(err)
			}
		}
		if again := readAttempts(readerOf(attemptsText(attempts))); len(again) != len(attempts) {
			t.Fatalf("%d attempts, written and read %d", len(attempts), len(again))
		}
		if headers, withheld := readHeaders(readerOf(s)); len(withheld) > len(headers) {
			t.Fatalf("%d headers, of which %d are withheld", len(headers), len(withheld))
		}
	})
}

// readerOf reads a row of one column.
func readerOf(text string) *rowReader {
	return &rowReader{names: []string{"text"}, values: []any{text}}
}

package store

import (
	"errors"
	"slices"
	"testing"

	"notifier/internal/notice"
)

// FuzzReadEnded: what stands on the list on its way to history is an ending that a row
// can be made of, or is refused; nothing in it can hold the list up.
func FuzzReadEnded(f *testing.F) {
	const record = `{"due":1763740800000,"made":187654321000000,"json":{"a":1},"endings":2}`
	for _, s := range []string{"d 1763740800000000 app1 - app1:a:b:1 " + record, "R 1763740800000000 app1 shop.example app1:a:b:1 " + record,
		"C 1 app1 - k {", "q 1 a - k {}", "d -5 a - k {}", "d 1 a - k", "", "x 9223372036854775807 a - k null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ReadEnded(s)
		if err != nil {
			if !errors.Is(err, ErrEnded) {
				t.Fatalf("not an ErrEnded: %v", err)
			}
			return
		}
		if e.Notice == nil || e.Number < 1 || e.At.IsZero() ||
			!slices.Contains([]notice.Ending{notice.EndDelivered, notice.EndDead, notice.EndCancelled, notice.EndReplaced}, e.Outcome) {
			t.Fatalf("%+v", e)
		}
	})
}

package store

import (
	"errors"
	"slices"
	"testing"

	"notifier/internal/notice"
)

func TestReadEntryRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "d", "d x app1 - app1:a:b:1 {}", "q 1763740800000000 app1 - app1:a:b:1 {}", "d 0 app1 - app1:a:b:1 {}"} {
		if e, err := ReadEntry(text); err == nil {
			t.Errorf("%q is %+v", text, e)
		}
	}
	e, err := ReadEntry(`x 1763740800000001 app1 - app1:a:b:1 what is this`)
	if err != nil || string(e.Raw) != "what is this" || e.Outcome != notice.EndDead || e.Number != 1 || e.Host != "" {
		t.Errorf("%+v, %v", e, err)
	}
}

// FuzzReadEntry checks that each text is either an error or an entry from which a row can be made,
// so that no text stops the relay.
func FuzzReadEntry(f *testing.F) {
	const record = `{"due":1763740800000,"made":187654321000000,"json":{"a":1},"endings":2}`
	for _, s := range []string{"d 1763740800000000 app1 - app1:a:b:1 " + record, "R 1763740800000000 app1 shop.example app1:a:b:1 " + record,
		"C 1 app1 - k {", "q 1 a - k {}", "d -5 a - k {}", "d 1 a - k", "", "x 9223372036854775807 a - k null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ReadEntry(s)
		if err != nil {
			if !errors.Is(err, ErrEntry) {
				t.Fatalf("not an ErrEntry: %v", err)
			}
			return
		}
		if e.Notice == nil || e.Number < 1 || e.At.IsZero() ||
			!slices.Contains([]notice.Ending{notice.EndDelivered, notice.EndDead, notice.EndCancelled, notice.EndReplaced}, e.Outcome) {
			t.Fatalf("%+v", e)
		}
	})
}

package notice

import (
	"errors"
	"testing"
)

// Impossible counts were sent to the receiver as notifier-attempt, and decided how many attempts were left.
func TestRecordWithImpossibleCountsIsUnreadable(t *testing.T) {
	for _, s := range []string{`{"due":1,"made":2,"n":-5}`, `{"due":1,"made":2,"n":2147483648}`, `{"due":1,"made":2,"redriven":1}`,
		`{"due":1,"made":2,"n":2,"redriven":3}`,
		`{"due":1,"made":2,"redriven":-1}`, `{"due":1,"made":2,"locked":-1}`, `{"due":1,"made":2,"n":9223372036854775807}`,
		`{"due":1,"made":2,"endings":-2}`, `{"due":1,"made":2,"endings":9223372036854775807}`,
		`{"due":1,"made":2,"endings":-1,"raw":"eyJkdWUiOjEsIm1hZGUiOjJ9","again":true}`} {
		if n, err := Decode("k", "r", s); !errors.Is(err, ErrRecord) {
			t.Errorf("%s is read as %+v", s, n)
		}
	}
	if _, err := Decode("k", "r", `{"due":1,"made":2,"n":3,"redriven":3,"locked":7,"endings":4}`); err != nil {
		t.Error(err)
	}
}

// A damaged body was sent to the receiver on the first attempt, and noticed only on the second.
func TestRecordWithDamagedBodyIsUnreadable(t *testing.T) {
	for _, s := range []string{`{"due":1,"made":2,"json"""}`, `{"due":1,"made":2,"json":{"paid":tru}}`, `{"due":1,"made":2,"json":{"a":1]}`,
		"{\"due\":1,\"made\":2,\"text\":\"a\x00\"}", `{"due":01,"made":2}`} {
		if n, err := Decode("k", "r", s); !errors.Is(err, ErrRecord) {
			t.Errorf("%s is read as %+v", s, n)
		}
	}
}

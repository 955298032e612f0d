package vault_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"notifier/internal/vault"
	"notifier/internal/wire"
)

// An answer of another form, as from a proxy, is no key of a subject.
func TestAnswerOfAnotherFormIsNoKey(t *testing.T) {
	if value, err := vault.StoredAs("id id w1:k:box"); value != "id id w1:k:box" || err != nil {
		t.Errorf("%q, %v", value, err)
	}
	if value, err := vault.StoredAs([]any{int64(7)}); value != "" || !vault.ForgottenAt(err).Equal(time.UnixMilli(7)) {
		t.Errorf("%q, %v", value, err)
	}
	for _, answer := range []any{nil, int64(7), []any{}, []any{int64(1), int64(2)}} {
		value, err := vault.StoredAs(answer)
		if value != "" || !errors.Is(err, wire.ErrUnavailable) || !strings.Contains(err.Error(), "sealkey") {
			t.Errorf("%v: %q, %v", answer, value, err)
		}
	}
}

package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"testing"
)

// Instances of all versions must derive the same keys.
func TestDerivedKeysAreStable(t *testing.T) {
	key := bytes.Repeat([]byte{7}, KeySize)
	got, err := FixedKey(key).Derive(t.Context(), ForCursors)
	if err != nil || hex.EncodeToString(got) != "a93034b3319067b2c40bb851f0065be7a24aab00115dfe648e62f2fd1ecc0d6e" {
		t.Errorf("%x, %v", got, err)
	}
	other, err := FixedKey(key).Derive(t.Context(), "another purpose")
	if err != nil || bytes.Equal(other, got) || bytes.Equal(got, key) {
		t.Errorf("two purposes have one key: %x, %v", other, err)
	}
}

func TestInvalidKeyIsRejected(t *testing.T) {
	down := errors.New("down")
	for name, r := range map[string]*KeyRing{
		"short": FixedKey([]byte("short")), "none": FixedKey(nil), "unreadable": NewKeyRing(func(context.Context) ([]byte, error) {
			return nil,
				down
		}),
	} {
		if k, err := r.Derive(t.Context(), ForCursors); !errors.Is(err, ErrKeyUnreadable) || k != nil ||
			errors.Is(err, down) != (name == "unreadable") {
			t.Errorf("%s: %x, %v", name, k, err)
		}
	}
}

package keyring

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"testing"
)

// Instances of all versions must derive the same keys.
func TestDerivedKeysAreStable(t *testing.T) {
	key := bytes.Repeat([]byte{7}, Size)
	got, err := Fixed(key).Derive(t.Context(), Cursors)
	if err != nil || hex.EncodeToString(got) != "a93034b3319067b2c40bb851f0065be7a24aab00115dfe648e62f2fd1ecc0d6e" {
		t.Errorf("%x, %v", got, err)
	}
	other, err := Fixed(key).Derive(t.Context(), "another purpose")
	if err != nil || bytes.Equal(other, got) || bytes.Equal(got, key) {
		t.Errorf("two purposes have one key: %x, %v", other, err)
	}
}

func TestInvalidKeyIsRejected(t *testing.T) {
	down := errors.New("down")
	for name, r := range map[string]*Ring{
		"short": Fixed([]byte("short")), "none": Fixed(nil), "unreadable": New(func(context.Context) ([]byte, error) { return nil, down }),
	} {
		if k, err := r.Derive(t.Context(), Cursors); !errors.Is(err, ErrUnreadable) || k != nil ||
			errors.Is(err, down) != (name == "unreadable") {
			t.Errorf("%s: %x, %v", name, k, err)
		}
	}
}

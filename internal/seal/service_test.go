package seal

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
)

func wrappedData(t *testing.T, keys *ServiceKeys, of Subject, d *DataKey) string {
	t.Helper()
	wrapped, err := keys.WrapData(space, of, d)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

// The subjects' keys lie in a table that others may write.
func TestWrappedKeyDoesNotOpenInAnotherPlace(t *testing.T) {
	keys, d := service(t, "2026-11", "2026-05"), NewDataKey()
	mine, other := AudienceSubject("m_1"), AudienceSubject("m_2")
	wrapped := wrappedData(t, keys, mine, d)
	if got, err := keys.UnwrapData(space, mine, d.ID, wrapped); err != nil || string(got.secret) != string(d.secret) || got.ID != d.ID {
		t.Fatalf("%v, %v", got, err)
	}
	for name, unwrap := range map[string]func() (*DataKey, error){
		"another subject":   func() (*DataKey, error) { return keys.UnwrapData(space, other, d.ID, wrapped) },
		"kind of subject":   func() (*DataKey, error) { return keys.UnwrapData(space, RouteSubject("m_1"), d.ID, wrapped) },
		"another namespace": func() (*DataKey, error) { return keys.UnwrapData("staging", mine, d.ID, wrapped) },
		"another id":        func() (*DataKey, error) { return keys.UnwrapData(space, mine, newID(), wrapped) },
		"another name of the service key": func() (*DataKey, error) {
			return keys.UnwrapData(space, mine, d.ID, strings.Replace(wrapped, "2026-11", "2026-05", 1))
		},
		"as a digest key": func() (*DataKey, error) {
			_, err := keys.UnwrapDigest(space, mine, d.ID, wrapped)
			return nil, err
		},
		"another key of that name": func() (*DataKey, error) {
			liar := service(t, "x")
			liar.keys[0].name = "2026-11"
			return liar.UnwrapData(space, mine, d.ID, wrapped)
		},
	} {
		if got, err := unwrap(); !errors.Is(err, ErrForeign) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestNewServiceKeyWrapsAndOldOneOpens(t *testing.T) {
	d, subject := NewDataKey(), RouteSubject("shop:order")
	old := wrappedData(t, service(t, "2026-05"), subject, d)
	both := service(t, "2026-11", "2026-05")
	if got, err := both.UnwrapData(space, subject, d.ID, old); err != nil || string(got.secret) != string(d.secret) {
		t.Errorf("%v, %v", got, err)
	}
	anew := wrappedData(t, both, subject, d)
	if name, err := WrappedWith(anew); err != nil || name != "2026-11" || !slices.Equal(both.Names(), []string{"2026-11", "2026-05"}) {
		t.Errorf("wrapped with %s of %s, %v", name, both, err)
	}
	if _, err := service(t, "2026-05").UnwrapData(space, subject, d.ID, anew); !errors.Is(err, ErrNoKey) ||
		!strings.Contains(err.Error(), "2026-11") {
		t.Errorf("without the key: %v", err)
	}
}

func TestOtherTextsAreNotUnwrapped(t *testing.T) {
	keys, d, subject := service(t, "a"), NewDataKey(), RouteSubject("shop")
	wrapped := wrappedData(t, keys, subject, d)
	for _, s := range []string{"", "w1", "w1:a", "w1:a:", "w2" + wrapped[2:], "w1::" + lastPart(wrapped), wrapped + "=", wrapped + "\n",
		wrapped[:len(wrapped)/2] + "\n" + wrapped[len(wrapped)/2:], "w1:ä:" + lastPart(wrapped), wrapped[:24]} {
		if got, err := keys.UnwrapData(space, subject, d.ID, s); !errors.Is(err, ErrFormat) || got != nil {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}

	short, err := keys.wrap(random(saltSize), []byte("short"), binding{useData, space, subject, d.ID})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := keys.UnwrapData(space, subject, d.ID, short); !errors.Is(err, ErrForeign) || got != nil {
		t.Errorf("a key of five bytes: %v, %v", got, err)
	}
}

func TestServiceKeysAreParsed(t *testing.T) {
	key := func(c string) string { return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, KeySize))) }
	raw := strings.TrimRight(key("b"), "=")
	keys, err := ParseServiceKeys(" 2026-11=" + key("a") + ",\n2026-05=" + raw + "\n")
	if err != nil || !slices.Equal(keys.Names(), []string{"2026-11", "2026-05"}) ||
		string(keys.keys[1].secret) != strings.Repeat("b", KeySize) {
		t.Fatalf("%v, %v", keys, err)
	}

	for text, want := range map[string]string{
		"":                                  "entry 1 is empty; want name=<32 random bytes in base64>",
		"a=" + key("a") + ",":               "entry 2 is empty",
		key("s"):                            "entry 1 has no valid name",
		raw:                                 "entry 1 has no valid name",
		"a b=" + key("s"):                   "entry 1 has no valid name",
		"=" + key("s"):                      "entry 1 has no valid name",
		strings.Repeat("n", 33) + "=" + raw: "entry 1 has no valid name",
		"a=" + key("s") + "!":               "the key a is not base64",
		"a=" + key("s")[:40]:                "the key a has 30 bytes; want 32",
		"a=":                                "the key a has 0 bytes",
		"a=" + key("s") + ",a=" + key("t"):  "two keys have the name a",
		"a=" + key("s") + ",b=" + key("s"):  "a and b are the same key",
	} {
		keys, err := ParseServiceKeys(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) || keys != nil {
			t.Errorf("%q: %v, %v; want %s", text, keys, err, want)
		} else if strings.Contains(err.Error(), key("s")[:20]) || strings.Contains(err.Error(), raw[:20]) {
			t.Errorf("the error shows a key: %v", err)
		}
	}
}

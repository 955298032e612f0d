package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	space  = "notifier"
	notice = "shop:order:paid:O1"
	card   = "4111111111111111"
)

func lastPart(text string) string { return text[strings.LastIndexByte(text, ':')+1:] }

// service returns service keys with these names. The key of a name is always the same.
func service(t testing.TB, names ...string) *ServiceKeys {
	t.Helper()
	var parts []string
	for _, name := range names {
		key := strings.Repeat(name+"*", KeySize)[:KeySize]
		parts = append(parts, name+"="+base64.StdEncoding.EncodeToString([]byte(key)))
	}
	keys, err := ParseServiceKeys(strings.Join(parts, ","))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func sealed(t testing.TB, d *DataKey, plain string) Text {
	t.Helper()
	text, err := d.Seal(Content, space, notice, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSealedTextOpensInItsPlaceOnly(t *testing.T) {
	d := NewDataKey()
	text := sealed(t, d, card)
	if plain, err := d.Open(text, space, notice); err != nil || string(plain) != card {
		t.Fatalf("%q, %v", plain, err)
	}
	if strings.Contains(text.String(), card) {
		t.Errorf("the text contains its content: %s", text)
	}

	answer, history, renamed := text, text, *d
	answer.Kind, history.Kind = Answer, History
	renamed.ID = newID()
	relabelled := text
	relabelled.DataKey = renamed.ID
	for name, open := range map[string]func() ([]byte, error){
		"another namespace": func() ([]byte, error) { return d.Open(text, "staging", notice) },
		"another notice":    func() ([]byte, error) { return d.Open(text, space, notice+"2") },
		"as an answer":      func() ([]byte, error) { return d.Open(answer, space, notice) },
		"as history":        func() ([]byte, error) { return d.Open(history, space, notice) },
		"another data key":  func() ([]byte, error) { return NewDataKey().Open(text, space, notice) },
		"another id of it":  func() ([]byte, error) { return renamed.Open(relabelled, space, notice) },
		"moved border":      func() ([]byte, error) { return d.Open(text, space+"\n"+d.ID, notice) },
	} {
		if plain, err := open(); err == nil || plain != nil {
			t.Errorf("%s: %q opens", name, plain)
		} else if !errors.Is(err, ErrForeign) && !errors.Is(err, errPlace) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChangedTextDoesNotOpen(t *testing.T) {
	d := NewDataKey()
	text := sealed(t, d, card)
	for i := range len(text.box) {
		changed := []byte(text.box)
		changed[i] = map[bool]byte{true: 'B', false: 'A'}[changed[i] == 'A']
		if plain, err := d.Open(Text{Content, d.ID, string(changed)}, space, notice); err == nil {
			t.Fatalf("byte %d changed: %q opens", i, plain)
		}
		if plain, err := d.Open(Text{Content, d.ID, text.box[:i]}, space, notice); err == nil {
			t.Fatalf("cut after %d bytes: %q opens", i, plain)
		}
	}
}

func TestSameContentIsSealedDifferently(t *testing.T) {
	d := NewDataKey()
	a, b := sealed(t, d, card), sealed(t, d, card)
	if a == b {
		t.Error("two texts of one content are the same")
	}
	for i := saltSize * 4 / 3; i+8 < len(a.box); i++ { // a repeated key stream would show here
		if a.box[i:i+8] == b.box[i:i+8] {
			t.Fatalf("two texts of one content share %q", a.box[i:i+8])
		}
	}
}

func TestOtherTextsAreNotParsed(t *testing.T) {
	text := sealed(t, NewDataKey(), card).String()
	id, box := text[4:4+idLength], lastPart(text)
	for _, s := range []string{"", "s1c", "s1c:", "s1c::", "s1c:" + id, "s1c:" + id + ":", "s2c:" + id + ":" + box, "s1x:" + id + ":" + box,
		":" + id + ":" + box, "s1c:" + id[1:] + ":" + box, "s1c:" + id[1:] + "+:" + box, "s1c:" + id + ":" + box + "=", text + "\n",
		"s1c:" + id + ":" + box[:20] + "\n" + box[20:], "s1c:" + id + ":" + box[:40], text + ":", " " + text, strings.ToUpper(text)} {
		if got, err := ParseText(s); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
}

func TestUnknownKindIsNotSealed(t *testing.T) {
	if text, err := NewDataKey().Seal("data key", space, notice, nil); err == nil {
		t.Errorf("sealed: %s", text)
	}
}

func TestNamesWithLineBreaksAreRefused(t *testing.T) {
	d := NewDataKey()
	if _, err := d.Seal(Content, space, "a\nb", nil); !errors.Is(err, errPlace) {
		t.Errorf("notice key: %v", err)
	}
	if _, err := d.Seal(Content, "a\nb", notice, nil); !errors.Is(err, errPlace) {
		t.Errorf("namespace: %v", err)
	}
	if _, err := service(t, "a").WrapData(space, "route:a\nb", d); !errors.Is(err, errPlace) {
		t.Errorf("subject: %v", err)
	}
	for _, at := range [][2]string{{"a\nb", notice}, {space, "a\nb"}} {
		if _, err := NewDigestKey().Digest(at[0], at[1], nil); !errors.Is(err, errPlace) {
			t.Errorf("digest in %q: %v", at, err)
		}
	}
}

func TestDigestIsTheSameForTheSameContentOfANotice(t *testing.T) {
	d := NewDigestKey()
	digest := func(d *DigestKey, space, notice, content string) string {
		got, err := d.Digest(space, notice, []byte(content))
		if err != nil || strings.Contains(got, content) {
			t.Fatalf("%s, %v", got, err)
		}
		return got
	}
	want := digest(d, space, notice, card)
	if again := digest(d, space, notice, card); again != want {
		t.Errorf("%s and then %s", want, again)
	}
	for name, other := range map[string]string{
		"content":    digest(d, space, notice, card+"1"),
		"notice":     digest(d, space, notice+"2", card),
		"namespace":  digest(d, "staging", notice, card),
		"digest key": digest(NewDigestKey(), space, notice, card),
		"border":     digest(d, space, notice+card[:1], card[1:]),
	} {
		if other == want {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

func TestKeysDoNotPrintTheirSecrets(t *testing.T) {
	data, digest, keys := NewDataKey(), NewDigestKey(), service(t, "2026-11")
	for _, secret := range []string{string(data.secret), string(digest.secret), string(keys.keys[0].secret)} {
		for _, printed := range []string{fmt.Sprintf("%v %+v %#v", data, digest, keys), fmt.Sprintf("%+v %#v %v", data, digest, keys),
			fmt.Sprintf("%#v %v %+v", data, digest, keys)} {
			for _, spelled := range []string{secret, fmt.Sprint([]byte(secret)), fmt.Sprintf("%x", secret), fmt.Sprintf("%#v", []byte(secret))} {
				if strings.Contains(printed, spelled) {
					t.Errorf("%q shows a secret", printed)
				}
			}
		}
	}
}

// A text from outside never panics, and opens only if it was sealed with this key for this notice.
func FuzzOpen(f *testing.F) {
	data := &DataKey{"AAAAAAAAAAAAAAAA", []byte(strings.Repeat("d", KeySize))}
	genuine, err := data.sealWith([]byte(strings.Repeat("s", saltSize)), Content, space, notice, []byte(card))
	if err != nil {
		f.Fatal(err)
	}
	keys := service(f, "2026-11")
	wrapped, err := keys.wrap([]byte(strings.Repeat("w", saltSize)), data.secret, binding{useData, space, RouteSubject("shop"), data.ID})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "s1c:AAAAAAAAAAAAAAAA:", genuine.String(), strings.Replace(genuine.String(), "s1c", "s1a", 1), wrapped,
		wrapped[:20], "w1:2026-11:" + lastPart(genuine.String()), "w1:other:" + lastPart(wrapped), "s1c:AAAAAAAAAAAAAAAA:" + lastPart(wrapped)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if text, err := ParseText(s); err == nil {
			if text.String() != s {
				t.Errorf("%q is read as %q", s, text)
			}
			if plain, err := data.Open(text, space, notice); err == nil && (s != genuine.String() || string(plain) != card) {
				t.Errorf("%q opens: %q", s, plain)
			}
		}
		if d, err := keys.UnwrapData(space, RouteSubject("shop"), data.ID, s); err == nil && s != wrapped {
			t.Errorf("%q is unwrapped: %s", s, d)
		}
		if _, err := keys.UnwrapDigest(space, RouteSubject("shop"), data.ID, s); err == nil {
			t.Errorf("%q is unwrapped as a digest key", s)
		}
	})
}

func TestDataKeyOfMalformedTextIsEmpty(t *testing.T) {
	for _, text := range []string{"", "s1c", "s1c:", "s1c::", "s1c:AAAA:BBBB", "AAAAAAAAAAAAAAAA", "s1c:AAAAAAAAAAAAAAA :BBBB"} {
		if id := DataKeyOf(text); id != "" {
			t.Errorf("%q has the data key %q", text, id)
		}
	}
	if id := DataKeyOf("s1c:AAAAAAAAAAAAAAAA:"); id != "AAAAAAAAAAAAAAAA" {
		t.Errorf("data key %q", id)
	}
}

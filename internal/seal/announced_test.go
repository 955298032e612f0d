package seal

import (
	"slices"
	"strings"
	"testing"
)

func TestAnnouncedServiceKeysTellSecretsApart(t *testing.T) {
	keys, liar := service(t, "2026-11", "2026-05"), service(t, "x")
	liar.keys[0].name = "2026-11"
	ids := keys.IDs()
	if len(ids) != 2 || NameOf(ids[0]) != "2026-11" || NameOf(ids[1]) != "2026-05" || len(ids[0]) != len("2026-11:")+8 {
		t.Fatalf("%q", ids)
	}
	if again := service(t, "2026-05", "2026-11").IDs(); again[1] != ids[0] || liar.IDs()[0] == ids[0] {
		t.Errorf("%q, %q, %q", ids, again, liar.IDs())
	}
	for _, id := range ids { // the secret is its name, repeated
		if encoded := encoding.EncodeToString(keys.keys[0].secret); strings.Contains(encoded, id[len("2026-11:"):][:4]) {
			t.Errorf("%s has a part of a key", id)
		}
	}
}

func TestFirstCommonServiceKeyWraps(t *testing.T) {
	liar := service(t, "x", "a")
	liar.keys[0].name = "b"
	for _, x := range []struct {
		own   []string
		lists [][]string
		want  string
		none  bool
	}{
		{own: []string{"b", "a"}, want: "b a"},
		{own: []string{"b", "a"}, lists: [][]string{service(t, "a", "b").IDs()}, want: "b a"},
		{own: []string{"b", "a"}, lists: [][]string{service(t, "a").IDs(), service(t, "a", "b").IDs()}, want: "a b"},
		{own: []string{"c", "b", "a"}, lists: [][]string{service(t, "c", "a").IDs(), service(t, "b", "a").IDs()}, want: "a c b"},
		{own: []string{"b", "a"}, lists: [][]string{liar.IDs()}, want: "a b"}, // another secret under the name b
		{own: []string{"b", "a"}, lists: [][]string{service(t, "c").IDs()}, want: "b a", none: true},
	} {
		own := service(t, x.own...)
		got, ok := own.Common(x.lists)
		if strings.Join(got.Names(), " ") != x.want || ok == x.none {
			t.Errorf("%v among %v: %s, %v", x.own, x.lists, got, ok)
		}
		if !slices.Equal(own.Names(), x.own) {
			t.Errorf("the keys themselves have changed: %s", own)
		}
	}
}

package keys

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderKey(t *testing.T) {
	for key, want := range map[string]string{
		"app1:shop:created:O1":         "app1:shop:O1",
		"app1:shop:paid:O1":            "app1:shop:O1",
		"app1:shop:refunded:O1~2":      "app1:shop:O1",
		"app1:shop:paid:O1~123456789":  "app1:shop:O1",
		"app1:shop:paid:O1~1234567890": "app1:shop:O1~1234567890",
		"app1:shop:paid:O1~2~3":        "app1:shop:O1~2",
		"app1:shop:paid:O1~":           "app1:shop:O1~",
		"app1:shop:paid:O1~2x":         "app1:shop:O1~2x",
		"app1:shop:paid:O12":           "app1:shop:O12",
		"app1:shop:paid:~7":            "app1:shop:~7",
		"app1:shop:paid:7":             "app1:shop:7",
		"":                             "",
		"session~1":                    "session~1",
		"a:b~1":                        "a:b~1",
		"a:b:c~1":                      "a:b:c~1",
	} {
		if got := OrderKey(key); got != want {
			t.Errorf("OrderKey(%q) = %q, want %q", key, got, want)
		}
	}
}

// The reference is the rule as the documentation states it.
func TestOrderKeyFollowsItsDefinition(t *testing.T) {
	suffix := regexp.MustCompile(`^(.+)~[0-9]{1,9}$`)
	seg := rapid.StringMatching(`[A-Za-z0-9_.~-]{1,8}`)
	id := rapid.StringMatching(`[a~0-9]{1,14}`)
	rapid.Check(t, func(t *rapid.T) {
		k := Key{seg.Draw(t, "app"), seg.Draw(t, "module"), seg.Draw(t, "type"), id.Draw(t, "id")}
		if got, want := OrderKey(k.String()), k.App+":"+k.Module+":"+suffix.ReplaceAllString(k.ID, "$1"); got != want {
			t.Fatalf("OrderKey(%q) = %q, want %q", k, got, want)
		}
	})
}

func TestSequenceIsInOneShard(t *testing.T) {
	seg := rapid.StringMatching(`[A-Za-z0-9_.~-]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		s := Space{Namespace: "n", Shards: rapid.IntRange(1, 64).Draw(t, "shards")}
		a := Key{seg.Draw(t, "app"), seg.Draw(t, "module"), seg.Draw(t, "type"), rapid.StringMatching(`[a-z0-9]{1,8}`).Draw(t, "id")}
		b := Key{a.App, a.Module, seg.Draw(t, "other type"), a.ID + "~" + rapid.StringMatching(`[0-9]{1,9}`).Draw(t, "suffix")}
		if s.Shard(a.String()) != s.Shard(b.String()) {
			t.Fatalf("%s is in shard %d, %s in %d", a, s.Shard(a.String()), b, s.Shard(b.String()))
		}
	})
}

func TestShardDoesNotAllocate(t *testing.T) {
	s := Space{Namespace: "n", Shards: 8}
	if n := testing.AllocsPerRun(100, func() { _ = s.Shard("app1:trans:notice:1234567890~12") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

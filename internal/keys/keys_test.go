package keys

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, good := range []string{"a:b:c:d", "app1:trans:notice:2026-11-21.0_~", "A:B:C:" + strings.Repeat("x", 128),
		strings.Repeat("x", 64) + ":b:c:d"} {
		k, err := Parse(good)
		if err != nil || k.String() != good || !Valid(good) {
			t.Errorf("Parse(%q) = %v, %v; Valid = %v", good, k, err, Valid(good))
		}
	}
	bad := map[string]string{
		"":                                  "has 1 segment,",
		"session:1":                         "2 segments",
		"a:b:c:d:e":                         "5 segments",
		"a:b:c:":                            "segment id is empty",
		":b:c:d":                            "segment app is empty",
		"a:b c:d:e":                         "segment module",
		"a:b:c:d\n":                         "segment id",
		"a:b:c:\xff":                        "segment id",
		"a:b:c:ä":                           "segment id",
		"a:b:c/d:e":                         "segment type",
		"a:b:c:d{x}":                        "segment id",
		"a:b:c:d\x00":                       "segment id",
		strings.Repeat("x", 65) + ":b:c:d":  "at most 64",
		"a:b:c:" + strings.Repeat("x", 129): "at most 128",
		strings.Repeat("y", 10<<20):         "bytes, at most",
	}
	for s, want := range bad {
		_, err := Parse(s)
		if !errors.Is(err, ErrNotKey) || !strings.Contains(err.Error(), want) || Valid(s) {
			t.Errorf("Parse(%.20q): %.80v, want %q; Valid = %v", s, err, want, Valid(s))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a:b:c:d", "session:1", "a:b:c:d:e", "a:b:c:\xff", ":::", "a::b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := Parse(s)
		if (err == nil) != Valid(s) {
			t.Fatalf("Parse(%q) = %v but Valid = %v", s, err, Valid(s))
		}
		if err == nil && k.String() != s {
			t.Fatalf("Parse(%q).String() = %q", s, k.String())
		}
	})
}

func TestParseIsInverseOfBuilding(t *testing.T) {
	seg := rapid.StringMatching(`[A-Za-z0-9_.~-]{1,64}`)
	id := rapid.StringMatching(`[A-Za-z0-9_.~-]{1,128}`)
	rapid.Check(t, func(t *rapid.T) {
		k := Key{seg.Draw(t, "app"), seg.Draw(t, "module"), seg.Draw(t, "type"), id.Draw(t, "id")}
		got, err := Parse(k.String())
		if err != nil || got != k {
			t.Fatalf("%+v came back as %+v, %v", k, got, err)
		}
	})
}

func TestValidDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = Valid("app1:trans:notice:1234567890") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCheckPrefix(t *testing.T) {
	for _, p := range []string{"app", "app:mod", "app:mod:type"} {
		if err := CheckPrefix(p); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []string{"", "a:", ":a", "a:b:c:d", "a b", "a:*"} {
		if CheckPrefix(p) == nil {
			t.Errorf("prefix %q was taken", p)
		}
	}
}

func TestHasPrefix(t *testing.T) {
	for _, c := range []struct {
		key, prefix string
		want        bool
	}{
		{"app1:a:b:c", "app1", true}, {"app12:a:b:c", "app1", false}, {"app1:a:b:c", "app1:a", true},
		{"app1:a:b:c", "", true}, {"app1", "app1", false}, {"app1:ab:b:c", "app1:a", false},
	} {
		if HasPrefix(c.key, c.prefix) != c.want {
			t.Errorf("HasPrefix(%q, %q) = %v", c.key, c.prefix, !c.want)
		}
	}
}

func TestNames(t *testing.T) {
	s := Space{Namespace: "notifier", Shards: 1}
	for got, want := range map[string]string{
		s.Shadow(Partition{Prefix: "app1:trans"}):      "notifier:{0}:shadow:app1:trans",
		s.Records(Partition{Prefix: "app1", Shard: 3}): "notifier:{3}:records:app1",
		s.Dead(Partition{Prefix: "app1"}):              "notifier:{0}:dead:app1",
		s.Settled(Partition{Prefix: "app1"}):           "notifier:{0}:settled:app1",
		s.Claim("a:b:c:d"):                             "notifier:{0}:claim:a:b:c:d",
		s.Meta():                                       "notifier:meta",
		s.Clients():                                    "notifier:clients",
		s.Routes():                                     "notifier:routes",
		s.Paused():                                     "notifier:paused",
		s.Wake():                                       "notifier:wake",
		s.FleetSigns():                                 "notifier:{fleet}:signs",
		s.FleetAbout():                                 "notifier:{fleet}:about",
		s.FleetEnded():                                 "notifier:{fleet}:ended",
		s.FleetChannel(0):                              "notifier:{fleet}:0:all",
		s.InstanceChannel(15, "abc"):                   "notifier:{fleet}:15:instance:abc",
		s.TapChannel(0):                                "notifier:{fleet}:0:tap",
		s.Key():                                        "notifier:key",
		Expired(0):                                     "__keyevent@0__:expired",
		Keyspace(2, "app1:orders"):                     "__keyspace@2__:app1:orders:*",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if k, ok := KeyspaceKey("__keyspace@0__:a:b:c:d"); !ok || k != "a:b:c:d" {
		t.Errorf("KeyspaceKey = %q, %v", k, ok)
	}
	if _, ok := KeyspaceKey("notifier:wake"); ok {
		t.Error("the wake channel was taken for a keyspace channel")
	}
}

func TestShardsSpread(t *testing.T) {
	s := Space{Namespace: "n", Shards: 8}
	var count [8]int
	for i := range 8000 {
		count[s.Shard("app:trans:notice:"+strconv.Itoa(i))]++
	}
	for i, n := range count {
		if n < 800 || n > 1200 {
			t.Errorf("shard %d holds %d of 8,000", i, n)
		}
	}
}

func TestForText(t *testing.T) {
	if id, n, prefix, ok := ParseFor(ForText("aaaaaaaaaaaa", 7, "app1:m")); id != "aaaaaaaaaaaa" || n != 7 || prefix != "app1:m" || !ok {
		t.Errorf("%s, %d, %s, %t", id, n, prefix, ok)
	}
	for _, text := range []string{"", "for", "for ", "for a", "for a 1", "for a x app1", "for a 0 app1", "for a -1 app1", "1 0 app1",
		"paused app1", "fora 1 app1"} {
		if id, n, prefix, ok := ParseFor(text); ok {
			t.Errorf("%q: %s, %d, %s", text, id, n, prefix)
		}
	}
}

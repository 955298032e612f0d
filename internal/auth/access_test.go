package auth

import (
	"strings"
	"testing"
)

func TestCallerScope(t *testing.T) {
	for _, c := range []struct {
		scope, prefix       string
		covers, owns, meets bool // prefix:x:1 as a key, prefix
	}{
		{"", "app1", true, true, true},
		{"app1", "app1", true, true, true},
		{"app1", "app1:trans", true, true, true},
		{"app1", "app12", false, false, false},
		{"app1:trans", "app1", false, false, true},
		{"app1:trans", "app1:transfer", false, false, false},
		{"app1:trans", "app2", false, false, false},
	} {
		who := Caller{Prefix: c.scope}
		if who.Covers(c.prefix+":x:1") != c.covers || who.Owns(c.prefix) != c.owns || who.Meets(c.prefix) != c.meets {
			t.Errorf("%q and %q: covers %v, owns %v, meets %v", c.scope, c.prefix, who.Covers(c.prefix+":x:1"), who.Owns(c.prefix),
				who.Meets(c.prefix))
		}
	}
}

func TestClientsFindByToken(t *testing.T) {
	cs := NewClients([]Client{{Name: "a", Token: "token a", Role: Admin}, {Name: "b", Token: "token b", Prefix: "app1", Role: Read}})
	if who, ok := cs.Find("token b"); !ok || who != (Caller{Name: "b", Prefix: "app1", Role: Read}) {
		t.Errorf("%+v, %v", who, ok)
	}
	for _, wrong := range []string{"", "token", "token a ", "Token a", "token ab"} {
		if who, ok := cs.Find(wrong); ok || who != (Caller{}) {
			t.Errorf("%q is %+v", wrong, who)
		}
	}
	who, sum, ok := cs.Named("a")
	_, other, _ := NewClients([]Client{{Name: "a", Token: "another"}}).Named("a")
	if !ok || who.Name != "a" || sum == other || sum == (Sum{}) {
		t.Errorf("%+v, %x, %v", who, sum, ok)
	}
	if _, _, ok := cs.Named("c"); ok || cs.None() || !NewClients(nil).None() {
		t.Error("an unknown client is found")
	}
}

func TestRoleIncludesLowerRoles(t *testing.T) {
	order := []Role{0, Public, Read, Produce, Operate, Admin}
	for i, have := range order {
		for j, required := range order {
			if got, want := have.Includes(required), j > 0 && i >= j; got != want {
				t.Errorf("%s includes %s: %v", have, required, got)
			}
		}
	}
	if (Caller{}).Everything() || (Caller{Role: Admin, Prefix: "app1"}).Everything() || (Caller{Role: Operate}).Everything() ||
		!Local().Everything() {
		t.Error("only an admin without a prefix may do everything")
	}
}

func TestParseRoleNames(t *testing.T) {
	for _, r := range []Role{Read, Produce, Operate, Admin} {
		if got, err := ParseRole(r.String()); got != r || err != nil || !strings.Contains(Roles, r.String()+" (") {
			t.Errorf("%s: %v, %v", r, got, err)
		}
	}
	for _, name := range []string{"", "none", "public", "Admin", "root"} {
		if r, err := ParseRole(name); r != 0 || err == nil {
			t.Errorf("%q is %s, %v", name, r, err)
		}
	}
}

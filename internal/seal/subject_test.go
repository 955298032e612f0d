package seal

import "testing"

func TestScopeSelectsTheSubject(t *testing.T) {
	for _, c := range []struct {
		scope         string
		audience, key string
		want          Subject
		none          bool
	}{
		{scope: "route", audience: "m_1", key: "shop:order:paid:O1", want: "route:shop:order"},
		{scope: "audience", audience: "m_1", key: "shop:order:paid:O1", want: "audience:m_1"},
		{scope: "audience", key: "shop:order:paid:O1", none: true},
		{scope: "id", audience: "m_1", key: "shop:order:paid:O1", want: "id:shop:order:O1"},
		{scope: "id", key: "shop:order:refund:O1~2", want: "id:shop:order:O1"},
	} {
		scope, err := ParseScope(c.scope)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := scope.Subject("shop:order", c.audience, c.key); ok == c.none || ok && got != c.want {
			t.Errorf("%+v: %s, %v", c, got, ok)
		}
	}
	for _, s := range []string{"", "Route", "key", "route,id"} {
		if scope, err := ParseScope(s); err == nil || scope != "" || err.Error() != "want route, audience or id" {
			t.Errorf("%q: %s, %v", s, scope, err)
		}
	}
}

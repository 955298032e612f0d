package route

import (
	"slices"
	"testing"

	"notifier/internal/sign"
)

func TestSignsDefaultsByTarget(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		set  sign.Per
		want sign.Per
	}{
		{KindFixed, "", sign.PerRoute}, {KindNotice, "", sign.PerHost}, {KindNotice, sign.PerRoute, sign.PerRoute},
		{KindFixed, sign.PerAudience, sign.PerAudience}} {
		r := Route{Target: Target{Kind: c.kind}, SignPer: c.set}
		if got := r.Signs(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// All keys are published; of each scheme in use, the first that fits signs.
func TestKeyIDs(t *testing.T) {
	rsa, ed, next := &sign.Key{Type: sign.RSA, ID: "r"}, &sign.Key{Type: sign.Ed25519, ID: "e"}, &sign.Key{Type: sign.Ed25519, ID: "n"}
	tab, err := NewTable([]*Route{
		{Name: "a", Prefix: "a", Sign: []sign.Scheme{sign.WechatPay, sign.Standard}, SignKeys: []*sign.Key{rsa}},
		{Name: "b", Prefix: "b", Sign: []sign.Scheme{sign.JWS, sign.Alipay}, SignKeys: []*sign.Key{next, ed, rsa}},
		{Name: "c", Prefix: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	published, signing := tab.KeyIDs()
	if !slices.Equal(published, []string{"e", "n", "r"}) || !slices.Equal(signing, []string{"n", "r"}) {
		t.Errorf("published %q, signing %q", published, signing)
	}
}

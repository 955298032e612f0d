package route

import (
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

package route

import (
	"errors"
	"strings"
	"testing"

	"notifier/internal/notice"
)

func TestCheckAddress(t *testing.T) {
	shop := &Route{Name: "shop", Target: Target{Kind: KindNotice}, HTTPSOnly: true, OAuth2: &OAuth2{}}
	for want, c := range map[string]struct {
		r       *Route
		address string
		header  string
	}{
		"":                        {shop, "https://shop.example/hook", "X-Order"},
		"the target of route log": {&Route{Name: "log", Target: Target{Kind: KindLog}}, "https://shop.example/hook", "X-Order"},
		"url has a % in its path": {shop, "https://shop.example/%zz", "X-Order"},
		"url is not https, and route shop calls only https":  {shop, "http://shop.example/hook", "X-Order"},
		`headers: "X Order" is not a header name`:            {shop, "https://shop.example/hook", "X Order"},
		"headers authorization is reserved: route shop writ": {shop, "https://shop.example/hook", "authorization"},
		"headers: Content-Length is reserved":                {shop, "https://shop.example/hook", "Content-Length"},
	} {
		err := c.r.CheckAddress(&notice.Content{URL: c.address, Headers: []notice.Header{{Name: c.header, Value: "1"}}})
		if want == "" && err != nil || want != "" && (!errors.Is(err, notice.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// An address that is none is the mistake of the content, which its own check finds.
	if wrong := shop.Misfits(&notice.Content{URL: "https://shop.example/%zz"}); wrong != nil {
		t.Errorf("%q", wrong)
	}
}

// BenchmarkMisfits measures the check of a notice that brings its url, when it is scheduled.
func BenchmarkMisfits(b *testing.B) {
	r := &Route{Name: "shop", Target: Target{Kind: KindNotice}}
	c := &notice.Content{URL: "https://shop.example/hooks/paid?order=4711"}
	b.ReportAllocs()
	for range b.N {
		if r.Misfits(c) != nil {
			b.Fatal("refused")
		}
	}
}

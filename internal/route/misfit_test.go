package route

import (
	"testing"

	"notifier/internal/notice"
)

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

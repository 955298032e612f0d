package history

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTryLeavesNoTrace(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		if err := d.Try(t.Context()); err != nil { // before the first start
			t.Error(err)
		}
		if v, err := d.Version(t.Context()); err != nil || v != 0 {
			t.Errorf("version %d, %v", v, err)
		}
		write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
		if err := d.Try(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(all(t, d, Query{Limit: 10}), " "); got != "1/1" {
			t.Errorf("rows: %s", got)
		}
		if d.sqlite {
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(d.file), ".notifier-*")); err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
			return
		}
		days, err := d.partitions(t.Context())
		if err != nil || len(days) != 1 {
			t.Errorf("%v, %v", days, err)
		}
	})
}

package history

import (
	"testing"

	"notifier/internal/store"
)

// A client's number means nothing without Redis, so the history drops it, and exported or replayed notices
// name no client.
func TestHistoryDropsTheClient(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(0, func(e *store.Entry) { e.Client = 7 })))
		page, err := d.Find(t.Context(), Query{Limit: 10})
		if err != nil || len(page.Rows) != 1 || page.Rows[0].Notice.Client != 0 {
			t.Errorf("%+v, %v", page.Rows, err)
		}
	})
}

package history

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"notifier/internal/layout"
	"notifier/internal/notice"
)

// traces returns how often a word occurs in the files of a database.
func traces(t *testing.T, file, word string) (n int) {
	t.Helper()
	files, err := filepath.Glob(file + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		n += bytes.Count(raw, []byte(word))
	}
	return n
}

// Erased data is not in the bytes of SQLite's files: not in the place of a row, not in pages from before a
// split, and not in the log. Concurrent erasures were answered with 503, because SQLite refuses a second
// emptying of its log at once. The data is gone when the call returns.
func TestConcurrentErasuresSucceed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.db")
	d := open(t, Options{URL: "sqlite://" + file})
	const n = 120
	key := func(i int) string { return fmt.Sprintf("app1:orders:paid:kunde-%d", i) }
	var list []layout.Entry
	for i := range n {
		list = append(list, ended(i, func(e *layout.Entry) { e.Key, e.Body = key(i), fmt.Appendf(nil, `{"iban":"geheim-%d-"}`, i) }))
	}
	write(t, d, rowsOf(BodiesKeep, list...))
	if traces(t, file, "geheim-7-") == 0 {
		t.Fatal("no data to find, so the test proves nothing")
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			x, until := Erasure{Key: key(i)}, noon.Add(24*time.Hour)
			if err := d.Refuse(t.Context(), x, until); err != nil {
				t.Error(err)
			}
			if got, err := d.Erase(t.Context(), x, until); err != nil || got != 1 {
				t.Errorf("%s: %d rows, %v", key(i), got, err)
				return
			}
			if m := traces(t, file, fmt.Sprintf("geheim-%d-", i)); m > 0 {
				t.Errorf("%s occurs %d times in the files", key(i), m)
			}
		})
	}
	all.Wait()
}

func TestErasedBytesLeaveTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.db")
	d := open(t, Options{URL: "sqlite://" + file})
	const n, pages, each = 4000, 20, 97
	key := func(i int) string { return fmt.Sprintf("app1:orders:paid:kundin-%d", i) }
	var list []layout.Entry
	for i := range n {
		list = append(list, ended(i, func(e *layout.Entry) {
			e.Body = fmt.Appendf(nil, `{"order":%d,"pad":%q}`, i, bytes.Repeat([]byte("x"), i%700))
			if i%each == 0 {
				e.Key, e.Body = key(i), fmt.Appendf(nil, `{"iban":"DE-geheim-%d","pad":%q}`, i, bytes.Repeat([]byte("y"), i%9000))
				e.Host, e.Attempts[0].Response = "kundin.example", fmt.Sprintf("danke geheim-%d", i)
				e.Headers = []notice.Header{{Name: "X-Kundin", Value: fmt.Sprintf("geheim-%d", i)}}
			}
		}))
	}
	// In another order, so that pages with rows split.
	for i := range pages {
		var part []layout.Entry
		for j := i; j < n; j += pages {
			part = append(part, list[j])
		}
		write(t, d, rowsOf(BodiesKeep, part...))
	}
	const secret, whose = "geheim-", "kundin"
	if traces(t, file, secret) == 0 || traces(t, file, whose) == 0 {
		t.Fatal("no data to find, so the test proves nothing")
	}
	until := noon.Add(24 * time.Hour)
	if got, err := d.Erase(t.Context(), Erasure{Key: key(each)}, until); err != nil || got != 1 {
		t.Fatalf("%d, %v", got, err)
	}
	for _, word := range []string{"geheim-97", "kundin-97"} {
		if m, others := traces(t, file, word+`"`)+traces(t, file, word+"{"), traces(t, file, secret); m > 0 || others == 0 {
			t.Errorf("%s occurs %d times in the files, of others there are %d", word, m, others)
		}
	}
	if got, err := d.Erase(t.Context(), Erasure{Host: "kundin.example"}, until); err != nil || got != n/each {
		t.Fatalf("%d, %v", got, err)
	}
	for _, word := range []string{secret, whose} {
		if m := traces(t, file, word); m > 0 {
			t.Errorf("%s occurs %d times in the files", word, m)
		}
	}
	if rows := all(t, d, Query{Limit: n}); len(rows) != n-n/each-1 {
		t.Errorf("%d rows are left, want %d", len(rows), n-n/each-1)
	}
}

package history

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
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
	var list []store.Entry
	for i := range n {
		list = append(list, ended(i, func(e *store.Entry) { e.Key, e.Body = key(i), fmt.Appendf(nil, `{"iban":"geheim-%d-"}`, i) }))
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

// SQLite leaves copies of rows in the unallocated part of pages when it joins pages, which the deletions of
// other rows cause. In this order of erasures one of them stayed in the file after the call had returned.
func TestErasedRowsLeaveNoCopies(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.db")
	d := open(t, Options{URL: "sqlite://" + file})
	const n = 120
	var list []store.Entry
	for i := range n {
		list = append(list, ended(i, func(e *store.Entry) { e.Body = fmt.Appendf(nil, `{"iban":"geheim-%d-"}`, i) }))
	}
	write(t, d, rowsOf(BodiesKeep, list...))
	order, until := rand.New(rand.NewPCG(32, 0)).Perm(n), noon.Add(24*time.Hour)
	for i, x := range order[:60] {
		if got, err := d.Erase(t.Context(), Erasure{Key: list[x].Key}, until); err != nil || got != 1 {
			t.Fatalf("%s: %d rows, %v", list[x].Key, got, err)
		}
		for _, y := range order[:i+1] {
			if m := traces(t, file, fmt.Sprintf("geheim-%d-", y)); m > 0 {
				t.Fatalf("after %d erasures %s occurs %d times in the files", i+1, list[y].Key, m)
			}
		}
	}
	if rows := all(t, d, Query{Limit: n}); len(rows) != n-60 {
		t.Errorf("%d rows are left, want %d", len(rows), n-60)
	}
	var whole string
	if err := d.db.QueryRow("PRAGMA integrity_check").Scan(&whole); err != nil || whole != "ok" {
		t.Errorf("integrity check: %s, %v", whole, err)
	}
}

func TestUnallocatedPartOfPages(t *testing.T) {
	t.Parallel()
	page := func(at, kind, cells, content int) []byte {
		p := bytes.Repeat([]byte{0xff}, 512)
		copy(p[at:], []byte{byte(kind), 0, 0, 0, byte(cells), byte(content >> 8), byte(content)})
		return p
	}
	for name, c := range map[string]struct {
		number   int64
		page     []byte
		from, to int
	}{
		"leaf of a table":              {2, page(0, leafTable, 3, 400), 8 + 6, 400},
		"leaf of an index":             {3, page(0, leafIndex, 0, 512), 8, 512},
		"internal":                     {9, page(0, internalTable, 10, 34), 12 + 20, 34},
		"internal of an index":         {9, page(0, internalIndex, 1, 500), 12 + 2, 500},
		"first":                        {1, page(100, leafTable, 2, 300), 100 + 8 + 4, 300},
		"largest size":                 {2, append(page(0, leafTable, 1, 0), make([]byte, 65536-512)...), 8 + 2, 65536},
		"not of a table":               {2, page(0, 0, 3, 400), 0, 0},
		"pointers reach into the rows": {2, page(0, leafTable, 200, 400), 0, 0},
		"rows begin after the end":     {2, page(0, leafTable, 3, 513), 0, 0},
		"too short":                    {2, page(0, leafTable, 3, 400)[:11], 0, 0},
	} {
		part, err := unallocated(c.number, c.page)
		if c.to == 0 {
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(part) != c.to-c.from || &part[0] != &c.page[c.from] {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(part), err, c.to-c.from)
		}
	}
}

func TestErasedBytesLeaveTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.db")
	d := open(t, Options{URL: "sqlite://" + file})
	const n, pages, each = 4000, 20, 97
	key := func(i int) string { return fmt.Sprintf("app1:orders:paid:kundin-%d", i) }
	var list []store.Entry
	for i := range n {
		list = append(list, ended(i, func(e *store.Entry) {
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
		var part []store.Entry
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

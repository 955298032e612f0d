package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

// newTestCLIWithPages is newTestCLI with a history, and the address of the pages over
// the same engine.
func newTestCLIWithPages(t *testing.T, db *history.DB) (d *testCLI, pages string) {
	t.Helper()
	d = newTestCLI(t, func(o *api.Options) {
		o.History = db
		office := auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(make([]byte, wire.KeySize)), Register: o.Engine,
			Clients: auth.NewClients(nil)})
		s := httptest.NewServer(ui.New(ui.Options{Engine: o.Engine.(ui.Engine), Routes: o.Routes, Loopback: true, Sessions: office}))
		t.Cleanup(s.Close)
		pages = s.URL
	})
	return d, pages
}

// download reads the pages' download of a group of dead letters.
func download(t *testing.T, pages, group string) string {
	t.Helper()
	a, err := http.Get(pages + "/ui/dead/download?" + group)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	if err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%v %d %s", err, a.StatusCode, text)
	}
	return string(text)
}

// The pages' download has passwords and secret headers, so that a purge can be undone.
func TestImportRestoresPasswordsOfDownload(t *testing.T) {
	t.Parallel()
	db, _ := kept(t)
	d, pages := newTestCLIWithPages(t, db)
	addresses := map[string]string{
		"app1:orders:t:password": "https://me:p%40ss@shop.example/x",
		"app1:orders:t:user":     "https://me@shop.example/x",
		"app1:orders:t:empty":    "https://me:@shop.example/x",
		"app1:orders:t:header":   "https://shop.example/x",
	}
	was, expires := map[string]store.Found{}, d.engine.Now().Add(time.Hour).Truncate(time.Millisecond)
	for key, address := range addresses {
		content := notice.Content{URL: address, Headers: []notice.Header{{Name: "Authorization", Value: "Bearer of-the-shop"}},
			Body: []byte(`{"n":1}`), Expires: expires, Tick: expires}
		if _, err := d.engine.Schedule(t.Context(), store.Request{Key: key, Content: content}); err != nil {
			t.Fatal(err)
		}
		d.engine.Move(key, notice.Dead, notice.ReasonTimeout)
		f, err := d.engine.Find(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		was[key] = f
	}
	file := download(t, pages, "host=shop.example&reason=timeout&route=orders")

	for key := range was { // as a purge does
		if _, err := d.engine.Cancel(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	d.stdin = file
	out, _ := d.run(0, "import", "-")
	contains(t, out, "0 refused", "4 restored")
	for key, f := range was {
		now, err := d.engine.Find(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if len(now.Content.Diff(&f.Content)) > 0 || now.ID() != f.ID() || now.State != f.State || now.SettledAt != f.SettledAt ||
			now.Due != f.Due || !now.Expires.Equal(expires) || !now.Tick.Equal(expires) ||
			now.Reason != f.Reason || !slices.Equal(now.Attempts, f.Attempts) || now.Endings != 1 {
			t.Errorf("%s:\n%+v %+v\nwas\n%+v %+v", key, now, now.Notice, f, f.Notice)
		}
	}
}

// An export with --gz is imported as it is, from a file, from the standard input, and
// after an interruption.
func TestImportReadsGzip(t *testing.T) {
	t.Parallel()
	db, put := kept(t)
	d := newTestCLI(t, func(o *api.Options) { o.History = db })
	const n = 3 * importBatch
	for i := range n {
		put(fmt.Sprint(i), time.Now(), func(r *history.Row) {
			r.Outcome, r.Reason, r.URL = notice.EndDead, notice.ReasonTimeout, "https://shop.example/x"
		})
	}
	packed, _ := d.run(0, "export", "--gz")
	file := filepath.Join(t.TempDir(), "month.ndjson.gz")
	if err := os.WriteFile(file, []byte(packed), 0o600); err != nil {
		t.Fatal(err)
	}
	cut := packed[:len(packed)-5]

	d.stdin = packed
	out, _ := d.run(0, "import", "-")
	contains(t, out, "0 refused", fmt.Sprint(n, " restored"))
	for key := range d.engine.All() {
		d.engine.Drop(key)
	}

	ctx, cancel := context.WithCancel(t.Context())
	d.wrap = func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			cancel()
		})
	}
	d.runContext(ctx, 1, "import", file)
	d.wrap = nil
	out, _ = d.run(0, "import", file)
	contains(t, out, "0 refused")
	if d.engine.Len() != n || d.engine.Changes() != 2*n {
		t.Errorf("%d notices after %d writes, want %d after %d", d.engine.Len(), d.engine.Changes(), n, 2*n)
	}

	for _, wrong := range []string{cut, packed[:12], "\x1f\x8bno gzip"} {
		if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs := d.run(1, "import", file)
		contains(t, errs, "unpack gzip")
		d.stdin = wrong
		_, errs = d.run(1, "import", "-")
		contains(t, errs, "unpack gzip")
	}
}

func TestImportSkipsByteOrderMark(t *testing.T) {
	t.Parallel()
	const text = "\uFEFF" + `{"key":"app1:orders:paid:1","url":"https://shop.example/x","body":{}}` + "\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(text)) // a buffer takes everything
	_ = z.Close()
	for name, content := range map[string]string{"plain": text, "gzip": packed.String()} {
		d := newTestCLI(t)
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := d.run(0, "import", file)
		contains(t, out, "1 created", "0 refused")
		d.stdin = content
		out, _ = d.run(0, "import", "-")
		contains(t, out, "1 kept", "0 refused")
	}
}

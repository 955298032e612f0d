package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"notifier/internal/access"
	"notifier/internal/api"
	"notifier/internal/history"
	"notifier/internal/keyring"
	"notifier/internal/notice"
	"notifier/internal/session"
	"notifier/internal/store"
	"notifier/internal/ui"
)

// newTestCLIWithPages is newTestCLI with a history, and the address of the pages over
// the same engine.
func newTestCLIWithPages(t *testing.T, db *history.DB) (d *testCLI, pages string) {
	t.Helper()
	d = newTestCLI(t, func(o *api.Options) {
		o.History = db
		office := session.New(session.Options{Keys: keyring.Fixed(make([]byte, keyring.Size)), Register: o.Engine, Clients: access.NewClients(nil)})
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
func TestImportPutsBackPasswordsOfDownload(t *testing.T) {
	db, _ := kept(t)
	d, pages := newTestCLIWithPages(t, db)
	addresses := map[string]string{
		"app1:orders:t:password": "https://me:p%40ss@shop.example/x",
		"app1:orders:t:user":     "https://me@shop.example/x",
		"app1:orders:t:empty":    "https://me:@shop.example/x",
		"app1:orders:t:header":   "https://shop.example/x",
	}
	was := map[string]store.Found{}
	for key, address := range addresses {
		content := notice.Content{URL: address, Headers: []notice.Header{{Name: "Authorization", Value: "Bearer of-the-shop"}}, Body: []byte(`{"n":1}`)}
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
	contains(t, out, "0 refused", "4 put back as they were")
	for key, f := range was {
		if now, err := d.engine.Find(t.Context(), key); err != nil || !reflect.DeepEqual(now, f) {
			t.Errorf("%s: %v\n%+v %+v\nwas\n%+v %+v", key, err, now, now.Notice, f, f.Notice)
		}
	}
}

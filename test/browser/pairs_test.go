//go:build !quick

package browser

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"notifier/internal/testkit"
)

// page returns the status, the address and the text of a page, after redirects.
func (s *service) page(path string) (status int, at, text string) {
	s.t.Helper()
	res, err := http.Get(s.address + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Request.URL.RequestURI(), string(b)
}

// An order number finds a notice that Redis no longer has, then resent, with all its endings, and no longer once it is erased.
func TestSearchFindsForgottenResentAndErasedNotices(t *testing.T) {
	const key, found = "shop:paid:notice:4711", "/ui/notices/shop:paid:notice:4711?found=4711"
	s := start(t, "NOTIFIER_HISTORY_URL", "sqlite://"+filepath.Join(t.TempDir(), "history.db"))
	var ended struct {
		Items []struct {
			ID     string
			Number int
		}
	}
	endings := func(n int) {
		t.Helper()
		testkit.Until(t, fmt.Sprintf("the history has %d", n), func() bool {
			s.call(http.MethodGet, "/v1/history?key="+key, "", &ended)
			return len(ended.Items) == n
		})
	}
	s.keep(key, "/ok", 0, "delivered")
	endings(1)
	s.forget(key)
	if status, at, text := s.page("/ui/notices?q=4711"); status != 200 || at != found || !strings.Contains(text, "It is no longer in Redis") {
		t.Errorf("a forgotten notice: %d %s", status, at)
	}

	var resent struct{}
	s.call(http.MethodPost, "/v1/notices/"+key+"/resend", fmt.Sprintf(`{"id":%q,"ending":1}`, ended.Items[0].ID), &resent)
	endings(2)
	if status, at, _ := s.page("/ui/notices?q=4711"); status != 200 || at != found {
		t.Errorf("a resent notice: %d %s", status, at)
	}
	if _, _, text := s.page("/ui/notices?q=4711&list=1"); strings.Count(text, key+"<") != 2 || !strings.Contains(text, "2 entries") {
		t.Errorf("the list of its endings: %s", text)
	}

	req, err := http.NewRequest(http.MethodDelete, s.address+"/v1/history?key="+key, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the erasure is answered %s", res.Status)
	}
	if status, at, text := s.page("/ui/notices?q=4711"); status != 200 || !strings.HasPrefix(at, "/ui/notices?q=") ||
		!strings.Contains(text, "No notice matches") || !strings.Contains(text, "No entry matches") || strings.Contains(text, key) {
		t.Errorf("an erased notice: %d %s %s", status, at, text)
	}
	if status, _, _ := s.page(found); status != http.StatusNotFound {
		t.Errorf("the page of an erased notice is answered %d", status)
	}
}

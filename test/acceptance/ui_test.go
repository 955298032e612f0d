package acceptance

import (
	"net/http"
	"strings"
	"testing"
)

// The service's address leads a browser to the pages, and answers programs with 404. With
// NOTIFIER_UI=false there are no pages, and no answer refers to them.
func TestPagesCanBeDisabled(t *testing.T) {
	rec := listen(t, nil)
	db := newRedis(t)
	with := launch(t, db.URL(), route("pay", "app1:pay", rec.url))
	without := launch(t, db.URL(), route("pay", "app1:pay", rec.url), []string{"NOTIFIER_UI=false"})
	web := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	const browser, program = "text/html,application/xhtml+xml,*/*;q=0.8", "*/*"
	for _, c := range []struct {
		s            *service
		path, accept string
		status       int
		kind, to     string
	}{
		{with, "/", browser, 302, "", "/ui/"},
		{with, "/", program, 404, "application/problem+json", ""},
		{with, "/ui/", browser, 200, "text/html", ""},
		{with, "/ui/notices", browser, 200, "text/html", ""},
		{without, "/", browser, 404, "application/problem+json", ""},
		{without, "/", program, 404, "application/problem+json", ""},
		{without, "/ui/", browser, 404, "application/problem+json", ""},
		{without, "/ui/assets/style.css", browser, 404, "application/problem+json", ""},
		{without, "/ui/sign-in", browser, 404, "application/problem+json", ""},
		{without, "/v1/stats", program, 200, "application/json", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.s.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", c.accept)
		res, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // nothing was written
		if res.StatusCode != c.status || !strings.HasPrefix(res.Header.Get("Content-Type"), c.kind) || res.Header.Get("Location") != c.to {
			t.Errorf("%s as %s, pages %t: %d %s to %q, want %d %s to %q", c.path, c.accept, c.s == with, res.StatusCode,
				res.Header.Get("Content-Type"), res.Header.Get("Location"), c.status, c.kind, c.to)
		}
	}
}

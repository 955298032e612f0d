package api

import (
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page describes every call, and every link leads to an anchor.
func TestDocsPageDescribesEachCall(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDocs(text)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.Page(w)
	page := w.Body.String()

	if n := len(page); n > 300<<10 {
		t.Errorf("the page has %d bytes, want at most 300 KiB", n)
	}
	for _, part := range []string{`<article id="schedule">`, "POST</span> /v1/notices</h3>", `<article id="type-problem">`,
		"<code>read</code>", "No token needed", `$NOTIFIER_TOKEN&#34; http://127.0.0.1:8080/v1/notices/$key`, "-X DELETE"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %s", part)
		}
	}
	for _, id := range regexp.MustCompile(`"operationId": "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(page, `<article id="`+id[1]+`">`) {
			t.Errorf("the page does not describe %s", id[1])
		}
	}
	for _, to := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+to[1]+`"`) {
			t.Errorf("nothing is at #%s", to[1])
		}
	}
}

// The page loads only its style sheet, and text of the document is escaped.
func TestDocsPageIsInert(t *testing.T) {
	t.Parallel()
	d, err := newDocs([]byte(`{"info":{"title":"<script>x</script>"},"tags":[{"name":"a"}],
		"paths":{"/x":{"get":{"operationId":"x","tags":["b"],"summary":"<img src=x>"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	d.Page(w)
	if page := w.Body.String(); strings.Contains(page, "<script") || strings.Contains(page, "<img") || !strings.Contains(page, "&lt;img") {
		t.Error(page)
	}
	if got := w.Header().Get("Content-Security-Policy"); got != docsPolicy {
		t.Errorf("policy %q", got)
	}

	w = httptest.NewRecorder()
	d.Style(w)
	if w.Header().Get("Content-Type") != "text/css; charset=utf-8" || strings.Contains(w.Body.String(), "url(") {
		t.Errorf("%v, %.100s", w.Header(), w.Body)
	}
}

func TestDocsPageRefusesAnotherDocument(t *testing.T) {
	t.Parallel()
	if _, err := newDocs([]byte("[]")); err == nil {
		t.Error("New accepted a list")
	}
}

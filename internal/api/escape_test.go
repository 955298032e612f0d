package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// An answer of the API printed on a terminal shows no forged text: control characters
// and direction marks are escaped, and a body with them is in base64.
func TestAnswersHaveNoHiddenCharacters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const key, hidden = "app1:orders:t:1", "a\u009b2Jb\u202ec\u2066d\x7fe"
	body := []byte(`{"x":"` + strings.ReplaceAll(hidden, "\x7f", "") + `"}`)
	for _, content := range []notice.Content{{Body: body, URL: "https://shop.example/"},
		{Body: []byte("{}"), URL: "https://shop.example/",
			Headers: []notice.Header{{Name: "X-A", Value: strings.ReplaceAll(hidden, "\x7f", "")}}}} {
		e := b.engine
		if _, err := e.Schedule(t.Context(), store.Request{Key: key, Content: content, OnDuplicate: store.Replace}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/notices/" + key, "/v1/notices?route=orders"} {
			a := b.do("GET", path, "").is(200)
			if strings.ContainsAny(a.raw, hidden[1:2]+"\u009b\u202e\u2066\x7f") || !json.Valid([]byte(a.raw)) {
				t.Errorf("%s: %q", path, a.raw)
			}
			if len(content.Headers) == 0 && !strings.Contains(a.raw, `"body_base64":`) {
				t.Errorf("a body with direction marks is respelled: %q", a.raw)
			}
		}
	}
}

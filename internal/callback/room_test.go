package callback

import (
	"net/http"
	"strings"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// Host names the host under which the result of an attempt counts, so that dispatch finds who waits for it.
func TestHostIsThatOfTheResult(t *testing.T) {
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	h := newHandler(t, Options{})
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	for _, url := range []string{s.URL, "HTTP://LOCALHOST" + port + "/a?b", "http://u:p@127.0.0.1" + port} {
		n := &notice.Notice{Key: "app1:shop:pay:1", Content: notice.Content{URL: url}}
		r := noticeRoute("127.0.0.0/8", "::1")
		host, result := h.Host(r, n), h.Handle(t.Context(), r, n)
		if host == "" || result.Host != host {
			t.Errorf("%s: host %q, its result counts for %q (%s)", url, host, result.Host, result.Response)
		}
	}
	for what, n := range map[string]*notice.Notice{
		"no url":        {Key: "app1:shop:pay:1"},
		"no valid host": {Key: "app1:shop:pay:1", Content: notice.Content{URL: "http://[::1/"}},
	} {
		if host := h.Host(noticeRoute(), n); host != "" {
			t.Errorf("%s: host %q", what, host)
		}
	}
	if host := h.Host(&route.Route{Name: "list"}, &notice.Notice{}); host != "" {
		t.Errorf("a list has host %q", host)
	}
}

package engine

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	logobserver "go.uber.org/zap/zaptest/observer"

	"notifier/internal/callback"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Receivers echo a secret around byte 512 of their answers, where the answer is cut. No part of the secret is stored, logged or
// sent to the dead-letter hook. The API and the pages read the same record.
func TestNoPartOfASecretIsStoredOrLogged(t *testing.T) {
	t.Parallel()
	const secret = "Q7jK9vZr2LwXb8TnYd4mGp6sRt0hPlc3"
	var mu sync.Mutex
	var hooks []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/hook" {
			mu.Lock()
			hooks = append(hooks, string(body))
			mu.Unlock()
			return
		}
		pad, _ := strconv.Atoi(string(body))
		w.WriteHeader(410)
		_, _ = io.WriteString(w, strings.Repeat("#", pad)+r.Header.Get("X-Api-Key")+" ###")
	}))
	t.Cleanup(srv.Close)
	calls := callback.New(callback.Options{})
	t.Cleanup(calls.Close)

	orders, alarms := testRoute("orders", "app1"), testRoute("alarms", "ops:x")
	orders.OnDead = alarms
	orders.Headers = []notice.Header{{Name: "X-Api-Key", Value: secret}}
	for r, path := range map[*route.Route]string{orders: "/", alarms: "/hook"} {
		var err error
		if r.Target, err = route.ParseTarget(srv.URL + path); err != nil {
			t.Fatal(err)
		}
	}
	core, logs := logobserver.New(zap.DebugLevel)
	w, d := keeps(t, testkit.SharedRedis(t), nil, func(o *Options) { o.Handler, o.Logger = calls, zap.New(core) }, orders, alarms)
	from := notice.KeptResponse - len(secret) - 2
	n := notice.KeptResponse + 2 - from
	w.put(t, n, func(i int) store.Request {
		return store.Request{Key: key(i), Content: notice.Content{Body: strconv.AppendInt(nil, int64(from+i), 10)}}
	})
	dead := rowsOf(t, d, history.Query{Prefix: "app1"}, n)
	eventually(t, "all dead letters reach the hook", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(hooks) >= n
	})

	mu.Lock()
	texts := append(hooks, fmt.Sprintf("%+v", dead))
	mu.Unlock()
	for i := range n {
		f, err := w.Find(t.Context(), key(i))
		if err != nil || len(f.Attempts) != 1 || len(f.Attempts[0].Response) < notice.KeptResponse-len(secret) {
			t.Fatalf("%+v, %v", f, err)
		}
		texts = append(texts, fmt.Sprintf("%+v", f.Notice))
	}
	for _, e := range logs.All() {
		texts = append(texts, fmt.Sprint(e.Message, e.ContextMap()))
	}
	for _, text := range texts {
		for at := 0; at+4 <= len(secret); at++ {
			if part := secret[at : at+4]; strings.Contains(text, part) {
				t.Fatalf("%q is in %s", part, text)
			}
		}
	}
}

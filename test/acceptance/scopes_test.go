//go:build fault

package acceptance

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

const tokenTwo = "token-of-application-2-0123456789"

// scoped is a service with a client for everything, one for app1 and one for app2.
func scoped(t *testing.T, db *database, urlOne, urlTwo string) *service {
	return launch(t, db.URL(), route("one", "app1:pay", urlOne), route("two", "app2:pay", urlTwo), []string{"NOTIFIER_CLIENTS=all,one,two",
		"NOTIFIER_CLIENT_ALL_TOKEN=" + tokenAll, "NOTIFIER_CLIENT_ONE_TOKEN=" + tokenOne, "NOTIFIER_CLIENT_TWO_TOKEN=" + tokenTwo,
		"NOTIFIER_CLIENT_ONE_PREFIX=app1", "NOTIFIER_CLIENT_TWO_PREFIX=app2",
		"NOTIFIER_CLIENT_ALL_ROLE=admin", "NOTIFIER_CLIENT_ONE_ROLE=operate", "NOTIFIER_CLIENT_TWO_ROLE=operate"})
}

// listAll lists to the end: a page of a cluster may be short, even empty, although more
// follow.
func listAll(t *testing.T, api *client.Client, q client.Query) (all []client.Notice) {
	t.Helper()
	for {
		page, err := api.List(t.Context(), q)
		if err != nil || len(page.Missing) > 0 {
			t.Fatalf("list: %v, missing %v", err, page.Missing)
		}
		all = append(all, page.Items...)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return all
		}
	}
}

// Two clients with scopes see and touch nothing of one another.
func TestClientsCannotReachOtherScopes(t *testing.T) {
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		if strings.Contains(h.key, ":dead:") {
			w.WriteHeader(http.StatusGone)
		}
	})
	db := newRedis(t)
	s := scoped(t, db, rec.url, rec.url)
	one, two := s.as(tokenOne), s.as(tokenTwo)
	ctx := t.Context()
	for _, c := range []struct {
		api *client.Client
		app string
	}{{one, "app1"}, {two, "app2"}} {
		for _, r := range []client.Request{{Key: c.app + ":pay:later:1", Delay: time.Hour}, {Key: c.app + ":pay:dead:1"},
			{Key: c.app + ":pay:sent:1"}} {
			if _, err := c.api.Schedule(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := s.as(tokenAll)
	await(t, waitTimeout, "two dead, two delivered", func() bool {
		states := map[client.State]int{}
		for _, n := range listAll(t, all, client.Query{}) {
			states[n.State]++
		}
		return states["dead"] == 2 && states["delivered"] == 2
	})
	theirsAre := func() (texts string) {
		for _, n := range listAll(t, two, client.Query{}) {
			texts += string(n.JSON) + "\n"
		}
		return texts
	}
	before := theirsAre()

	// Whatever the client of app1 tries on a notice of app2 is answered as if
	// there were none.
	bodies := map[string]string{"PATCH": `{"delay":"1s"}`, "ack": `{"attempt":1,"id":"msg_1"}`, "nack": `{"attempt":1,"id":"msg_1"}`,
		"defer": `{"attempt":1,"id":"msg_1","after":"1s"}`}
	for _, id := range []string{"later:1", "dead:1", "sent:1"} {
		for _, op := range []string{"GET", "PATCH", "DELETE", "fire", "redrive", "ack", "nack", "defer"} {
			method, verb := "POST", "/"+op
			if op == strings.ToUpper(op) {
				method, verb = op, ""
			}
			theirs := s.must(tokenOne, method, "/v1/notices/app2:pay:"+id+verb, bodies[op])
			none := s.must(tokenOne, method, "/v1/notices/app2:pay:none:1"+verb, bodies[op])
			if theirs.status != http.StatusNotFound || none.status != theirs.status ||
				strings.ReplaceAll(theirs.body, id, "none:1") != none.body || len(theirs.header) != len(none.header) {
				t.Errorf("%s of their %s: %d %s\nof none: %d %s", op, id, theirs.status, theirs.body, none.status, none.body)
			}
		}
	}
	for _, c := range []struct {
		method, path, body string
		want               []int
	}{
		{"POST", "/v1/notices", `{"key":"app2:pay:new:1"}`, []int{403}},
		{"POST", "/v1/notices", `{"key":"app2:pay:later:1","on_duplicate":"replace"}`, []int{403}},
		{"POST", "/v1/notices", `{"key":"app2:pay:later:1","on_duplicate":"keep"}`, []int{403}},
		{"GET", "/v1/notices?route=two", "", []int{404}},
		{"GET", "/v1/notices?prefix=app2", "", []int{200, 404}},
		{"POST", "/v1/routes/two/pause", "", []int{404}},
		{"POST", "/v1/routes/two/resume", "", []int{404}},
		{"POST", "/v1/routes/two/redrive", "", []int{404}},
		{"POST", "/v1/routes/two/redrive?dry_run=true", "", []int{404}},
		{"GET", "/metrics", "", []int{403, 404}},
		{"GET", "/v1/instances", "", []int{403}},
		{"GET", "/v1/notices", "", []int{200}}, {"GET", "/v1/routes", "", []int{200}}, {"GET", "/v1/stats", "", []int{200}},
	} {
		a := s.must(tokenOne, c.method, c.path, c.body)
		if !slices.Contains(c.want, a.status) {
			t.Errorf("%s %s: %d %s, want %v", c.method, c.path, a.status, a.body, c.want)
		}
		if a.status == 200 && (strings.Contains(a.body, "app2") || strings.Contains(a.body, `"two"`)) {
			t.Errorf("%s %s shows data of app2: %s", c.method, c.path, a.body)
		}
	}
	batch := s.must(tokenOne, "POST", "/v1/notices/batch", `[{"key":"app1:pay:batch:1","delay":"1h"},{"key":"app2:pay:batch:1","delay":"1h"}]`)
	if batch.status != http.StatusMultiStatus || !strings.Contains(batch.body, "403") {
		t.Errorf("a batch of both: %d %s", batch.status, batch.body)
	}
	for _, token := range []string{"", "token-of-application-", "token-of-application-3", tokenOne + "x"} {
		for _, path := range []string{"/v1/notices", "/v1/notices/app1:pay:later:1", "/v1/stats", "/v1/routes", "/v1/instances", "/metrics"} {
			if a := s.must(token, "GET", path, ""); a.status != http.StatusUnauthorized && a.status != http.StatusTooManyRequests {
				t.Errorf("token %q, %s: %d", token, path, a.status)
			}
		}
	}
	if after := theirsAre(); after != before {
		t.Errorf("app2's notices changed:\n%s\n%s", before, after)
	}

	// The time of the answer does not show whether a key outside the scope exists.
	const rounds = 1500
	var theirs, none []time.Duration
	for i := range rounds {
		theirs = append(theirs, s.must(tokenOne, "GET", "/v1/notices/app2:pay:later:1", "").took)
		none = append(none, s.must(tokenOne, "GET", fmt.Sprintf("/v1/notices/app2:pay:later:%d", i+2), "").took)
	}
	a, b := spreadOf(theirs), spreadOf(none)
	if ratio := float64(a.p50) / float64(b.p50); ratio > 2 || ratio < 0.5 {
		t.Errorf("a notice of theirs is answered in %s, one that is not there in %s", a.p50, b.p50)
	}
	t.Logf("404 for a notice of theirs %s; for none %s", a, b)

	raw, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{tokenAll, tokenOne, tokenTwo} {
		if bytes.Contains(raw, []byte(secret)) || strings.Contains(s.must(tokenAll, "GET", "/metrics", "").body, secret) {
			t.Errorf("the output contains a token")
		}
	}
}

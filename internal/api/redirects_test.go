package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/engine/enginetest"
	"notifier/internal/jobs"
	"notifier/internal/testkit"
)

const redirectBody = `{"from":"https://shop.example/hooks","to":"https://new.example/in"}`

// putRedirects stores redirects that are over or stopped.
func putRedirects(e *enginetest.Engine, list ...jobs.Job) {
	for i := range list {
		list[i].Made = time.Now().UTC()
		list[i].Changed = list[i].Made
		if err := (jobs.Store{Store: e.Store()}).Add(context.Background(), &list[i], jobs.MaxJobs); err != nil {
			panic(err)
		}
	}
}

func someRedirects(e *enginetest.Engine) {
	rule := jobs.Rule{From: "https://shop.example/hooks", To: "https://new.example/in", Prefix: "app1:orders"}
	putRedirects(e, jobs.Job{ID: "rdr_done", State: jobs.Done, Client: "all", Rule: rule, Redirected: 7},
		jobs.Job{ID: "rdr_stopped", State: jobs.Stopped, Rule: rule})
}

func manyRedirects(e *enginetest.Engine) {
	for i := range 100 {
		putRedirects(e, jobs.Job{ID: fmt.Sprintf("rdr_%d", i), State: jobs.Stopped})
	}
}

func TestRedirectIsMadeAndRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients).as("token-of-one")
	b.do("POST", "/v1/notices", `{"key":"app1:orders:t:1","delay":"1h","url":"https://shop.example/hooks/1?q","headers":{"Cookie":"x"}}`).is(201)
	b.do("POST", "/v1/redirects", strings.Replace(redirectBody, "{", `{"dry_run":true,`, 1)).is(200).says(`"found":1`, `"complete":true`, `"prefix":"app1"`)
	id := b.do("POST", "/v1/redirects", redirectBody).is(201).says(`"prefix":"app1"`, `"client":"one"`).id()

	path := "/v1/redirects/" + id
	testkit.Until(t, "the redirect is done", func() bool { return strings.Contains(b.do("GET", path, "").is(200).raw, `"state":"done"`) })
	b.do("GET", path, "").is(200).says(`"redirected":1`, `"in_flight":0`, `"refused":0`)
	b.do("GET", "/v1/redirects", "").is(200).says(id)
	b.do("GET", "/v1/notices/app1:orders:t:1", "").is(200).says(`"url":"https://new.example/in/1?q"`, `"scheduled_url":"https://shop.example/hooks/1"`,
		`"redirect":"`+id+`"`)
	b.do("DELETE", path, "").is(409).says("the redirect is done")
	b.do("GET", "/v1/audit", "").is(200).says(`"action":"redirect"`, "from https://shop.example/hooks to https://new.example/in")

	b.do("POST", "/v1/redirects", `{"from":"https://a.example/x","host":"a.example","audience":"m17","to":"https://b.example"}`).is(201)
	b.do("GET", "/v1/audit", "").is(200).says("from https://a.example/x at a.example, audience m17 to https://b.example")

	other := b.as("token-of-two")
	other.do("GET", path, "").is(404)
	if strings.Contains(other.do("GET", "/v1/redirects", "").is(200).raw, id) {
		t.Error("a client sees a redirect of keys that it may not see")
	}
	b.as("token-of-all").do("GET", "/v1/redirects", "").is(200).says(id)
}

func TestRedirectRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients).as("token-of-all")
	for body, says := range map[string]string{
		`{"to":"https://new.example/"}`:                                                "body.from",
		`{"from":"https://shop.example/"}`:                                             "body.to",
		`{"from":"https://shop.example","to":"https://SHOP.example:443/"}`:             "the same as from",
		`{"from":"https://shop.example?a","to":"https://new.example/"}`:                "body.from",
		`{"from":"https://shop.example","to":"https://u:p@new.example/"}`:              "body.to",
		`{"from":"shop.example","to":"https://new.example/"}`:                          "body.from",
		`{"host":"a b","to":"https://new.example/"}`:                                   "body.host",
		`{"from":"https://shop.example","to":"http://127.0.0.1/"}`:                     "may not be called",
		`{"from":"https://shop.example","to":"https://new.example/","prefix":"app2"}`:  "target notice",
		`{"from":"https://shop.example","to":"https://new.example/","prefix":"a b"}`:   "body.prefix",
		`{"from":"https://shop.example","to":"https://new.example/","audience":"a b"}`: "audience",
	} {
		b.do("POST", "/v1/redirects", body).is(422).says(says)
	}
	b.as("token-of-two").do("POST", "/v1/redirects", `{"from":"https://a.example","to":"https://b.example","prefix":"app1"}`).is(403)
	if a := b.do("GET", "/v1/redirects", ""); strings.Contains(a.raw, "rdr_") {
		t.Errorf("a refused call has made a redirect: %s", a.raw)
	}
}

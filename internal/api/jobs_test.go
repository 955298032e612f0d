package api_test

import (
	"fmt"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/engine/enginetest"
	"notifier/internal/jobs"
	"notifier/internal/testkit"
)

const jobBody = `{"kind":"cancel","prefix":"app1:orders"}`

func someJobs(e *enginetest.Engine) {
	rule := jobs.Rule{Prefix: "app1:orders"}
	putRedirects(e, jobs.Job{ID: "job_done", Kind: jobs.KindPurge, State: jobs.Done, Rule: rule, Redirected: 7},
		jobs.Job{ID: "job_stopped", Kind: jobs.KindCancel, State: jobs.Stopped, Rule: rule})
}

func manyJobs(e *enginetest.Engine) {
	for i := range 100 {
		putRedirects(e, jobs.Job{ID: fmt.Sprintf("job_%d", i), Kind: jobs.KindCancel, State: jobs.Stopped})
	}
}

func TestJobIsMadeAndRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients).as("token-of-one")
	for i := range 3 {
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app1:orders:t:%d","delay":"1h","url":"https://shop.example/%d"}`, i, i)).is(201)
	}
	body := `{"kind":"cancel","prefix":"app1:orders","host":"shop.example","rate":"600/m"}`
	b.do("POST", "/v1/jobs", strings.Replace(body, "{", `{"dry_run":true,`, 1)).is(200).says(`"found":3`, `"complete":true`, `"rate":"10/s"`)
	id := b.do("POST", "/v1/jobs", body).is(201).says(`"kind":"cancel"`, `"client":"one"`).id()
	path := "/v1/jobs/" + id
	testkit.Until(t, "the job is done", func() bool { return strings.Contains(b.do("GET", path, "").is(200).raw, `"state":"done"`) })
	b.do("GET", path, "").is(200).says(`"changed":3`, `"claimed":0`)
	b.do("GET", "/v1/notices/app1:orders:t:1", "").is(200).says(`"state":"cancelled"`)
	b.do("DELETE", path, "").is(409).says("the job is done")
	b.do("POST", path+"/resume", "").is(409).says("the job is done")
	b.do("GET", "/v1/audit", "").is(200).says(`"action":"cancel-many"`, id+": cancel, host shop.example, at 10/s")
	b.do("GET", "/v1/redirects/"+id, "").is(404)

	other := b.as("token-of-two")
	for _, route := range []string{"orders", "none"} { // a route of another client is as unknown as no route
		other.do("POST", "/v1/jobs", `{"kind":"purge","route":"`+route+`"}`).is(422).says(`"value":"`+route+`"`, "no route has this name")
	}
	other.do("GET", path, "").is(404)
	other.do("DELETE", path, "").is(404)
	other.do("POST", "/v1/jobs", body).is(403)
	if strings.Contains(other.do("GET", "/v1/jobs", "").is(200).raw, id) {
		t.Error("another client sees the job")
	}
}

// The configuration changes the prefix of a client while its job runs. The job keeps its prefix, and goes on. The client can read and stop
// it only while its own prefix covers that of the job.
func TestJobKeepsItsPrefixIfItsClientGetsAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients).as("token-of-one")
	const n = 3
	for i := range n {
		b.do("POST", "/v1/notices", fmt.Sprintf(`{"key":"app1:orders:t:%d","delay":"1h","url":"https://shop.example/%d"}`, i, i)).is(201)
	}
	path := "/v1/jobs/" + b.do("POST", "/v1/jobs", `{"kind":"cancel","prefix":"app1:orders","rate":"5/s"}`).is(201).id()
	changed := func(prefix string) *bench {
		return newBench(t, withClients, func(o *api.Options) {
			o.Engine, o.Recurrences = b.engine, b.engine.Recurrences()
			o.Clients[1].Prefix = prefix
		}).as("token-of-one")
	}
	for _, prefix := range []string{"app1:orders:t", "app2"} {
		c := changed(prefix)
		c.do("GET", path, "").is(404)
		c.do("DELETE", path, "").is(404)
	}
	c := changed("app1:orders")
	testkit.Until(t, "the job is done", func() bool { return strings.Contains(c.do("GET", path, "").is(200).raw, `"state":"done"`) })
	c.do("GET", path, "").is(200).says(fmt.Sprintf(`"changed":%d`, n))
}

func TestJobsAreChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for body, want := range map[string]string{
		`{"prefix":"app1"}`:                                                              "want cancel, redrive or purge",
		`{"kind":"cancel"}`:                                                              "a cancel needs the prefix of the keys",
		`{"kind":"cancel","prefix":"a:b:c:d"}`:                                           "body.prefix",
		`{"kind":"cancel","prefix":"app1","reason":"timeout"}`:                           "pending notices have no reason of death",
		`{"kind":"purge","reason":"bored"}`:                                              "body.reason",
		`{"kind":"purge","reason":"timeout","status":503}`:                               "want a status that the reason can have",
		`{"kind":"purge","rate":"fast"}`:                                                 "want a rate such as 100/s",
		`{"kind":"purge","route":"none"}`:                                                "no route has this name",
		`{"kind":"purge","host":"https://x"}`:                                            "body.host",
		`{"kind":"purge","since":"2026-11-21T00:00:00Z","until":"2026-11-20T00:00:00Z"}`: "is not after since",
	} {
		b.do("POST", "/v1/jobs", body).is(422).says(want)
	}
}

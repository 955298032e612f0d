package clienttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"notifier/client"
)

var origins = regexp.MustCompile(`^http://127\.0\.0\.1:\d+`)

// repeating repeats schedule calls with another due time, and for a dead and a cancelled notice.
func repeating(w *world) {
	at := time.Now().Add(20_000 * time.Hour).Truncate(time.Millisecond) // the clock of the fake is ahead
	r := client.Request{Key: "cmp:hook:due:1", Due: at, URL: w.shop, Body: []byte("0")}
	w.schedule(r)
	w.schedule(r)
	r.Due = at.Add(time.Millisecond)
	w.schedule(r)
	r.Body = []byte("1")
	w.schedule(r)
	r.OnDuplicate = client.Keep
	w.schedule(r)
	w.schedule(client.Request{Key: r.Key, Delay: time.Minute, URL: w.shop, Body: []byte("0")})
	_, err := w.c.Cancel(w.t.Context(), r.Key)
	w.note("cancel", nil, err)
	w.schedule(client.Request{Key: r.Key, Due: at, URL: w.shop, Body: []byte("0")})

	past := client.Request{Key: "cmp:hook:due:2", Due: time.Now().Add(-2 * time.Hour), URL: w.shop + "/500"}
	w.schedule(past)
	w.pass(past.Key, func(n *client.Notice) bool { return len(n.Attempts) == 1 && n.State == client.Scheduled })
	w.schedule(past)
	past.Due = past.Due.Add(time.Minute) // before the creation, too
	w.schedule(past)
	past.Due = at
	w.schedule(past)
}

// addresses schedules notices with URLs that are percent-encoded or refused. The second call repeats the first one.
func addresses(w *world) {
	for i, rest := range []string{"/张|%2F?d=2026-11-28 10:00&e=%zz#é", "/%E5%BC%A0%7C%2F?d=2026-11-28%2010:00&e=%25zz#%C3%A9", "/100%",
		"/ ", ":70000/", ":/"} {
		w.schedule(client.Request{Key: fmt.Sprintf("cmp:hook:url:%d", max(i, 1)), Delay: time.Hour, URL: "http://127.0.0.1" + rest})
	}
	for i, form := range []string{"b=张 #&a=1", "a=%zz", "a;b", "a\nb"} {
		w.schedule(client.Request{Key: fmt.Sprintf("cmp:hook:form:%d", i), Delay: time.Hour, URL: w.shop + "/200", Method: "GET",
			BodyText: &form, ContentType: "application/x-www-form-urlencoded"})
	}
	w.schedule(client.Request{Key: "cmp:hook:form:5", Delay: time.Hour, URL: w.shop, Method: "GET", Body: []byte("[1]")})
	w.schedule(client.Request{Key: "cmp:hook:form:6", Delay: time.Hour, URL: w.shop, Method: "GET", Body: []byte("1"),
		ContentType: "text/xml"})
	w.schedule(client.Request{Key: "cmp:push:form:7", Delay: time.Hour, Method: "GET", Body: []byte("[1]")})
}

// expiring schedules notices that expire, and sends one of them again.
func expiring(w *world) {
	ctx, at := w.t.Context(), time.Now().Add(20_000*time.Hour).Truncate(time.Millisecond)
	const key = "cmp:hook:expires:1"
	r := client.Request{Key: key, URL: w.shop + "/500", ExpiresAfter: 900 * time.Millisecond}
	w.schedule(r)
	w.pass(key, settled(client.Dead, 1))
	w.get(key)
	r.ExpiresAfter = time.Minute // not a part of the content
	w.schedule(r)
	n, err := w.c.Redrive(ctx, key)
	w.notice("redrive without an expiry", n, err)
	dead, err := w.c.Get(ctx, key)
	if err != nil {
		w.t.Fatal(err)
	}

	n, err = w.c.Resend(ctx, dead)
	w.notice("resend without an expiry", n, err)
	n, err = w.c.Redrive(ctx, key, client.ExpiresIn(time.Hour))
	w.notice("redrive with an expiry", n, err)
	w.pass(key, settled(client.Scheduled, 2))
	n, err = w.c.Cancel(ctx, key)
	w.notice("cancel", n, err)

	r = client.Request{Key: "cmp:hook:expires:2", Due: at, URL: w.shop, Expires: at.Add(time.Hour)}
	w.schedule(r)
	w.schedule(r)
	r.Expires = r.Expires.Add(time.Millisecond)
	w.schedule(r)
	r.Key, r.Due, r.URL = "cmp:hook:expires:3", time.Time{}, w.shop+"/410"
	w.schedule(r)
	w.pass(r.Key, settled(client.Dead, 1))
	n, err = w.c.Redrive(ctx, r.Key, client.ExpiresIn(time.Hour))
	w.notice("redrive with another expiry", n, err)
	w.pass(r.Key, settled(client.Dead, 2))
	w.schedule(r)
	for i, text := range []string{`"never"`, `"0s"`, `"2001-01-01T00:00:00Z"`, `true`, `90`} {
		w.post("POST", "/v1/notices", "application/json", fmt.Sprintf(`{"key":"cmp:push:expires:%d","delay":"1h","expires":%s}`, i, text))
	}
}

// recurring keeps recurring notices and schedules notices of them. None has a tick while the test runs.
func recurring(w *world) {
	ctx, text := w.t.Context(), "x"
	from := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	const key, none = "cmp:hook:daily:books", "cmp:hook:daily:none"
	r := client.RecurrenceRequest{Key: key, Every: time.Hour, From: from, URL: w.shop + "/200", Body: []byte(`{"a": 1}`), Expires: time.Hour,
		Headers: map[string]string{"x-tenant": "7", "Cookie": "a=1"}, Retry: "none", Overlap: client.OverlapSkip}
	put := func(what string, r client.RecurrenceRequest) {
		x, err := w.c.PutRecurrence(ctx, r)
		w.note(what, json.RawMessage(x.JSON), err)
	}
	plan, err := w.c.PlanRecurrence(ctx, r)
	w.note("plan", json.RawMessage(plan.JSON), err)
	put("create", r)
	put("the same again", r)
	r.Paused, r.BodyText, r.Body, r.Times, r.Missed, r.MissedMost = true, &text, nil, 7, client.MissedAll, 3
	put("replace", r)
	put("with cron", client.RecurrenceRequest{Key: "cmp:push:daily:books", Cron: "0 2 * * *", Zone: "Asia/Shanghai", From: from,
		Until: from.AddDate(1, 0, 0), Number: 4})
	list, err := w.c.Recurrences(ctx, client.RecurrenceFilter{Prefix: "cmp:hook", Limit: 1})
	w.note("list", json.RawMessage(list.JSON), err)
	for _, k := range []string{key, none} {
		for _, call := range []func(context.Context, string) (*client.Recurrence, error){w.c.ReadRecurrence, w.c.ResumeRecurrence,
			w.c.PauseRecurrence, w.c.PauseRecurrence} {
			x, err := call(ctx, k)
			w.note("read, resume or pause "+k, json.RawMessage(x.JSON), err)
		}
		n, err := w.c.RunRecurrence(ctx, k)
		w.notice("run "+k, n, err)
	}

	w.pass(key+"~1", settled(client.Delivered, 1))
	w.get(key + "~1")
	w.note("delete", nil, w.c.DeleteRecurrence(ctx, key))
	w.note("delete again", nil, w.c.DeleteRecurrence(ctx, key))
	put("goes on with its number", r)
	for i, wrong := range []client.RecurrenceRequest{{Key: key + "~1", Every: time.Hour}, {Key: key}, {Key: key, Every: time.Millisecond},
		{Key: key, Every: time.Hour}, {Key: "other:hook:a:b", Every: time.Hour},
		{Key: key, Every: time.Hour, URL: w.shop, Until: time.Unix(1e9, 0)}} {
		put(fmt.Sprint("wrong ", i), wrong)
	}
}

// bulkJobs makes bulk changes as jobs. The service makes them in the background.
func bulkJobs(w *world) {
	ctx := w.t.Context()
	const prefix = "cmp:hook:jobs"
	for i, path := range []string{"/410", "/410", "/200"} {
		w.schedule(client.Request{Key: fmt.Sprint(prefix, ":", i), URL: w.shop + path, Delay: time.Duration(i/2) * time.Hour})
	}
	w.pass(prefix+":0", settled(client.Dead, 1))
	w.pass(prefix+":1", settled(client.Dead, 1))
	note := func(what string, x *client.Job, err error) {
		w.note(what, map[string]any{"kind": x.Kind, "state": x.State, "of": []string{x.Prefix, x.Route, x.Host, x.Reason}, "rate": x.Rate,
			"found": x.Found, "complete": x.Complete, "numbers": []int64{x.Changed, x.Claimed, x.Refused}}, err)
	}
	for i, r := range []client.JobRequest{{Kind: client.JobPurge, Reason: "gone", Rate: "30/m"}, {Kind: client.JobCancel},
		{Kind: client.JobRedrive, Route: "hook", Host: "127.0.0.1"}, {Kind: client.JobCancel, Until: time.Now().Add(time.Minute)}} {
		r.Prefix, r.DryRun = prefix, true
		x, err := w.c.StartJob(ctx, r)
		note(fmt.Sprint("plan ", i), x, err)
	}
	for i, r := range []client.JobRequest{{}, {Kind: "send", Prefix: prefix}, {Kind: client.JobCancel},
		{Kind: client.JobCancel, Prefix: prefix, Reason: "gone"}, {Kind: client.JobPurge, Route: "none"},
		{Kind: client.JobPurge, Prefix: "a:b:c:d"}, {Kind: client.JobPurge, Rate: "fast"}} {
		x, err := w.c.StartJob(ctx, r)
		note(fmt.Sprint("wrong ", i), x, err)
	}
	for i, r := range []client.JobRequest{{Kind: client.JobCancel}, {Kind: client.JobPurge, Host: "127.0.0.1"}} {
		r.Prefix = prefix
		x, err := w.c.StartJob(ctx, r)
		for id := x.ID; err == nil && x.State == client.JobRunning; {
			x, err = w.c.ReadJob(ctx, id)
		}
		note(fmt.Sprint("job ", i), x, err)
	}
	for i := range 3 {
		w.get(fmt.Sprint(prefix, ":", i))
	}
	list, err := w.c.Jobs(ctx)
	for i := range list.Items {
		note(fmt.Sprint("list ", i), &list.Items[i], err)
	}
	x, err := w.c.ReadJob(ctx, "job_none")
	note("none", x, err)
}

// opening opens the texts of entries, and texts that do not open.
func opening(w *world) {
	ctx := w.t.Context()
	open := func(what, key, text string) {
		o, err := w.c.Open(ctx, key, text)
		w.note("open "+what, json.RawMessage(o.JSON), err)
	}
	text, other := "caf\u00e9 & \u202e", "s1c:AAAAAAAAAAAAAAAA:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for i, r := range []client.Request{{Body: []byte(`{"card" : 7}`), Headers: map[string]string{"X-Card": "7", "X-Token": "8"}},
		{BodyText: &text, ContentType: "text/plain"}, {BodyBase64: []byte{0, 255}}, {}} {
		r.Key = fmt.Sprintf("cmp:sealed:a:%d", i)
		w.schedule(r)
		e := w.takeOne("sealed")
		w.note("entry", map[string]any{"key": e.Key, "content_type": e.ContentType, "body": e.Body, "attempt": e.Attempt,
			"sealed": e.Sealed != ""}, nil)
		open("entry", e.Key, e.Sealed)
		open("entry of another key", "cmp:sealed:a:other", e.Sealed)
		open("changed entry", e.Key, e.Sealed[:len(e.Sealed)-2]+"AA")
		w.schedule(r)
		r.Body, r.BodyText, r.BodyBase64, r.Method = []byte("1"), nil, nil, "PUT"
		r.Headers = map[string]string{"X-Card": "9"}
		w.schedule(r)
		w.get(r.Key)
		n, err := w.c.Ack(ctx, e.Key, client.Report{Attempt: e.Attempt, ID: e.ID, Response: "done"})
		w.notice("ack", n, err)
		w.get(r.Key)
	}
	w.post("POST", "/v1/notices/batch", "application/json", `[{"key":"cmp:sealed:b:1","delay":"1h","body":1,"headers":{"x-card":"7"}}]`)
	for _, text := range []string{other, "s1c:AAAA", "s1a" + other[3:], ""} {
		open(text, "cmp:sealed:a:1", text)
	}
	open("no key", "nokey", other)
	w.post("POST", "/v1/open", "application/json", `{"key":"cmp:sealed:a:1","text":"s1c:"}`)
	w.post("POST", "/v1/open", "application/json", `{"key":7}`)
}

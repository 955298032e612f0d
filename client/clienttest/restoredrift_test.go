package clienttest_test

import (
	"strings"
	"testing"
	"time"

	"notifier/client"
	"notifier/client/clienttest"
)

// restoring compares what is put back, and what is not.
func restoring(w *world) {
	ctx := w.t.Context()
	const dead, waits = "cmp:hook:re:gone", "cmp:hook:re:waits"
	n, err := w.c.Get(ctx, dead)
	if err != nil || n.State != client.Dead {
		w.t.Fatalf("%+v, %v", n, err)
	}
	put := func(what, line string) {
		w.note(what, nil, nil)
		w.post("POST", "/v1/notices/restore", "application/x-ndjson", line)
	}
	letter := string(n.JSON)
	put("put back what is there", letter)
	if _, err := w.c.Cancel(ctx, dead); err != nil {
		w.t.Fatal(err)
	}
	put("put back what was purged", letter)
	put("put back again", letter)
	w.get(dead)
	w.schedule(client.Request{Key: waits, URL: w.shop + "/200", Delay: time.Hour, Body: []byte(`{"n":1}`)})
	if n, err = w.c.Get(ctx, waits); err != nil {
		w.t.Fatal(err)
	}
	pending := string(n.JSON)
	put("put back what waits", pending)
	w.schedule(client.Request{Key: waits, URL: w.shop + "/200", Delay: time.Hour, Body: []byte(`{"n":2}`), OnDuplicate: client.Replace})
	put("put back over another", pending)
	for what, change := range inOrder(map[string][2]string{
		"delivered": {`"state":"dead"`, `"state":"delivered"`}, "no time of death": {`"settled_at"`, `"ended_at_not"`}, "secrets": {`"state"`, `"headers_withheld":["X-A"],"state"`},
		"no body": {`"state"`, `"body_kept":false,"state"`}, "no state": {`"state":"dead",`, ""}, "no id": {`"id":`, `"body_sha256":`},
		"a password": {"://", "://me:pass@"}, "a user": {"://", "://me@"}, "the mark of a password": {"://", "://me:xxxxx@"}, "a password and no name": {"://", "://:pass@"},
	}) {
		line := strings.Replace(letter, change[0], change[1], 1)
		if line == letter {
			w.t.Fatalf("%s changes nothing in %s", what, letter)
		}
		put("put back with "+what, line)
	}
	if n, err = w.c.Redrive(ctx, dead); err != nil || n.Replay == "" {
		w.t.Errorf("%+v, %v", n, err)
	}
	w.pass(dead, settled(client.Dead, 2))
	w.get(dead)
}

// What one service has is put back into another as it was.
func TestWhatWaitsIsPutBackIntoAnother(t *testing.T) {
	jobs := clienttest.Options{Routes: []clienttest.Route{{Name: "jobs", Target: "list:jobs", Report: true}}}
	one := clienttest.New(jobs)
	defer one.Close()
	other := clienttest.New(jobs)
	defer other.Close()
	a, b := one.Client(), other.Client()
	defer a.Close()
	defer b.Close()
	if _, err := a.Schedule(t.Context(), client.Request{Key: "a:b:c:1", Body: []byte(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	one.Advance(0)
	if _, err := a.Nack(t.Context(), "a:b:c:1", client.Report{Attempt: 1, ID: one.Take("jobs")[0].ID}); err != nil {
		t.Fatal(err)
	}
	n, err := a.Get(t.Context(), "a:b:c:1")
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.RestoreLines(t.Context(), [][]byte{n.JSON})
	if err != nil || !all[0].Created {
		t.Fatalf("%+v, %v", all, err)
	}
	if back, err := b.Get(t.Context(), n.Key); err != nil || back.ID != n.ID || back.Attempt != 2 {
		t.Errorf("%+v, %v", back, err)
	}
	other.Advance(time.Minute)
	if list := other.Take("jobs"); len(list) != 1 || list[0].ID != n.ID || list[0].Attempt != 2 || string(list[0].Body) != `{"n":1}` {
		t.Errorf("%+v", list)
	}
}

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

// Times and durations have the form of the API. Empty ones are omitted: a zero time is not the year 1.
func TestRequestFormatsTimes(t *testing.T) {
	at := time.Date(2031, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))
	for want, v := range map[string]any{
		`{"key":"a:b:c:1"}`: client.Request{Key: "a:b:c:1"},
		`{"key":"a:b:c:1","retry":"1s,1m30s","delay":"1.5s","body":[1, 2]}`: client.Request{Key: "a:b:c:1", Delay: 1500 * time.Millisecond,
			Retry: client.Ladder(time.Second, 90*time.Second), Body: []byte(`[1, 2]`)},
		`{"key":"a:b:c:1","retry":"none","due":"2031-01-02T02:04:05.006Z"}`: client.Request{Key: "a:b:c:1", Due: at, Retry: client.Ladder()},
		`{"attempt":2,"id":"msg_1","after":"5s"}`:                           client.Report{Attempt: 2, ID: "msg_1", After: 5 * time.Second},
		`{"attempt":2,"id":"msg_1","permanent":true}`:                       client.Report{Attempt: 2, ID: "msg_1", Permanent: true},
		`[{"key":"a:b:c:1","body":[1,2]}]`:                                  []client.Request{{Key: "a:b:c:1", Body: []byte(`[1, 2]`)}},
		`{"since":"2031-01-02T03:04:05.006+01:00"}`:                         client.ReplayRequest{Since: at},
		`{"dry_run":true,"host":"h","id":"r","new_ids":true,"outcome":["dead"],"prefix":"a","rate":"5/s",` +
			`"since":"2031-01-02T03:04:05.006+01:00","until":"2031-01-02T03:05:05.006+01:00"}`: client.ReplayRequest{ID: "r", Since: at,
			Until: at.Add(time.Minute), Prefix: "a", Host: "h", Outcome: []client.State{client.Dead}, Rate: "5/s", NewIDs: true, DryRun: true},
	} {
		var got []byte
		var err error
		if r, ok := v.(client.Request); ok {
			got, err = r.Line() // package json would remove white space from the body
		} else {
			got, err = json.Marshal(v)
		}
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestClientRefusesInvalidJSONBody(t *testing.T) {
	c, err := client.New(client.Options{URL: "http://127.0.0.1:1", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Schedule(context.Background(), client.Request{Key: "a:b:c:1", Body: []byte("{")})
	want := "the body is not JSON; give it as text or base64"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = c.ScheduleBatch(context.Background(), []client.Request{{Key: "a:b:c:1"}, {Key: "a:b:c:2", Body: []byte("{")}})
	if want = "notice 2: " + want; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// answered returns a client of a service that answers with h.
func answered(t *testing.T, o client.Options, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o.URL = s.URL
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A replay whose answer was lost is retried with the ID of the first call.
func TestReplayIsRetriedWithSameID(t *testing.T) {
	var ids []string
	c := answered(t, client.Options{Pause: time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ ID string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		if ids = append(ids, asked.ID); len(ids) == 1 {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"id": asked.ID})
	})
	x, err := c.Replay(t.Context(), client.ReplayRequest{Since: time.Now()})
	if err != nil || len(ids) != 2 || ids[0] != ids[1] || x.ID != ids[0] || !strings.HasPrefix(x.ID, "rpl_") {
		t.Errorf("%v, %v", ids, err)
	}
	if x, err := c.Replay(t.Context(), client.ReplayRequest{Since: time.Now(), ID: "mine"}); err != nil || x.ID != "mine" {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestClientCallsPathsOfAPI(t *testing.T) {
	t.Parallel()
	var got string
	c := answered(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.String()
		_, _ = io.WriteString(w, `{"id":"rpl_1","sent":3,"items":[{"id":"rpl_1","sent":3}]}`)
	})
	replay := func(call func(context.Context, string) (*client.Replay, error)) func() (client.Replay, error) {
		return func() (client.Replay, error) { x, err := call(t.Context(), "rpl_1"); return *x, err }
	}
	for want, call := range map[string]func() (client.Replay, error){
		"GET /v1/replays/rpl_1":         replay(c.ReadReplay),
		"DELETE /v1/replays/rpl_1":      replay(c.StopReplay),
		"POST /v1/replays/rpl_1/resume": replay(c.ResumeReplay),
		"GET /v1/replays":               func() (client.Replay, error) { x, err := c.Replays(t.Context()); return x.Items[0], err },
	} {
		if x, err := call(); err != nil || x.ID != "rpl_1" || x.Sent != 3 || got != want {
			t.Errorf("%s: %+v, %v, want %s", got, x, err, want)
		}
	}
	if p, err := c.List(t.Context(), client.Query{Waiting: true, Limit: 5}); err != nil || len(p.Items) != 1 ||
		got != "GET /v1/notices?limit=5&waiting=true" {
		t.Errorf("%s: %+v, %v", got, p, err)
	}
}

func TestClientRefusesInvalidAnswers(t *testing.T) {
	t.Parallel()
	var answer string
	var host string
	c := answered(t, client.Options{Retries: -1}, func(w http.ResponseWriter, r *http.Request) {
		host = r.Host
		switch answer {
		case "cut":
			w.Header().Set("Content-Length", "1000")
		case "503":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, answer)
	})
	get := func() error { _, err := c.Get(t.Context(), "a:b:c:1"); return err }
	list := func() error { _, err := c.List(t.Context(), client.Query{}); return err }
	batch := func() error { _, err := c.ScheduleBatch(t.Context(), make([]client.Request, 2)); return err }
	lines := func() error { _, err := c.ScheduleLines(t.Context(), make([][]byte, 2)); return err }
	endings := func() error { _, err := c.History(t.Context(), client.HistoryQuery{}); return err }
	entries := func() (err error) {
		for _, err = range c.AuditEntries(t.Context(), client.AuditQuery{}) {
		}
		return err
	}
	const undecodable, other = "cannot decode the answer of HOST: ", "503 Service Unavailable: the answer of HOST is not of this service"
	for _, x := range []struct {
		name   string
		call   func() error
		answer string
		want   string
	}{
		{"Get", get, "<html>", undecodable + "invalid character '<'"},
		{"Get", get, "cut", "the answer of HOST is incomplete: unexpected EOF"},
		{"List", list, `{"items":[{"key":1}]}`, undecodable + "json: cannot unmarshal number"},
		{"History", endings, `{"items":[{"key":1}]}`, undecodable + "json: cannot unmarshal number"},
		{"AuditEntries", entries, `{"items":[{"key":1}]}`, undecodable + "json: cannot unmarshal number"},
		{"AuditEntries", entries, "503", other},
		{"ScheduleBatch", batch, "503", other},
		{"ScheduleBatch", batch, `{}`, "cannot decode the answer to a batch: json: cannot unmarshal object"},
		{"ScheduleBatch", batch, `[{}]`, "the answer to a batch of 2 has 1 results"},
		{"ScheduleLines", lines, "{}\n{", "cannot decode the answer to a batch: unexpected EOF"},
		{"ScheduleLines", lines, "{}\n", "the answer to a batch of 2 has 1 results"},
	} {
		answer = x.answer
		err := x.call()
		if want := strings.Replace(x.want, "HOST", host, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s, %s: %v, want %s", x.name, x.answer, err, want)
		}
	}
}

// A long outage is for the caller to handle.
func TestClientStopsRetrying(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		after   string
		cancel  bool
		retries int
	}{
		{"a Retry-After above 30 s", "31", false, 0},
		{"the caller gives up during the pause", "30", true, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls, retries := 0, 0
		api := answered(t, client.Options{OnRetry: func(error, time.Duration) {
			if retries++; c.cancel {
				cancel()
			}
		}}, func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Retry-After", c.after)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		_, err := api.Stats(ctx)
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != 503 || p.RetryAfter.String() != c.after+"s" || calls != 1 || retries != c.retries {
			t.Errorf("%s: %v after %d calls, %d retries", c.name, err, calls, retries)
		}
	}
}

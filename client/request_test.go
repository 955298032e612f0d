package client_test

import (
	"context"
	"encoding/json"
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
	if want := "the body is not JSON; give it as text or base64"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A replay whose answer was lost is retried with the ID of the first call.
func TestReplayIsRetriedWithSameID(t *testing.T) {
	var ids []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ ID string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		if ids = append(ids, asked.ID); len(ids) == 1 {
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"id": asked.ID})
	}))
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x, err := c.Replay(t.Context(), client.ReplayRequest{Since: time.Now()})
	if err != nil || len(ids) != 2 || ids[0] != ids[1] || x.ID != ids[0] || !strings.HasPrefix(x.ID, "rpl_") {
		t.Errorf("%v, %v", ids, err)
	}
	if x, err := c.Replay(t.Context(), client.ReplayRequest{Since: time.Now(), ID: "mine"}); err != nil || x.ID != "mine" {
		t.Errorf("%+v, %v", x, err)
	}
}

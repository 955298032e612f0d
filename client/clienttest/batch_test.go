package clienttest_test

import (
	"fmt"
	"testing"
	"time"

	"notifier/client"
	"notifier/client/clienttest"
)

func TestNoticesFollowsCursor(t *testing.T) {
	s := clienttest.New(clienttest.Options{Routes: []clienttest.Route{{Name: "all"}}})
	defer s.Close()
	c := s.Client()
	var batch []client.Request
	for i := range 5 {
		batch = append(batch, client.Request{Key: fmt.Sprintf("a:b:c:%d", i), URL: "https://shop.example/", Delay: time.Hour, Body: []byte(`{"a":1}`)})
	}
	batch = append(batch, client.Request{Key: "wrong"})
	results, err := c.ScheduleBatch(t.Context(), batch)
	if err != nil || len(results) != 6 || !results[4].Created || results[5].Status != 422 {
		t.Fatalf("%+v, %v", results, err)
	}

	seen := 0
	for n, err := range c.Notices(t.Context(), client.Query{Limit: 2}) {
		if err != nil || n.Key != batch[seen].Key || string(n.Body) != string(batch[seen].Body) {
			t.Fatalf("notice %d: %+v, %v", seen, n, err)
		}
		seen++
	}
	if seen != 5 {
		t.Errorf("%d notices, want 5", seen)
	}
	for _, err := range c.Notices(t.Context(), client.Query{State: "none"}) {
		if !client.IsStatus(err, 422) {
			t.Errorf("an invalid state: %v", err)
		}
	}
}

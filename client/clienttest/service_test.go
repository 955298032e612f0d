package clienttest_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"notifier/client"
	"notifier/client/clienttest"
	"notifier/client/webhook"
)

// A notice that fails gets all attempts of the default ladder, 25 hours, at the right times.
func TestAdvanceFollowsLadder(t *testing.T) {
	var at []time.Duration
	var s *clienttest.Service
	start := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	s = clienttest.New(clienttest.Options{Start: start, Routes: []clienttest.Route{{Name: "all", Secret: secret}},
		Receiver: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at = append(at, s.Now().Sub(start))
			body, err := webhook.Payload(r, 100)
			if err == nil {
				err = webhook.Verify(r.Header, body, secret) // by the real time
			}
			if err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusBadGateway)
		})})
	defer s.Close()
	c := s.Client()
	if _, err := c.Schedule(t.Context(), client.Request{Key: "a:b:c:1", URL: "https://shop.example/", Delay: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if n := s.Advance(time.Minute - time.Millisecond); n != 0 {
		t.Fatalf("%d attempts before it is due", n)
	}
	if n := s.Advance(time.Millisecond); n != 1 {
		t.Fatalf("%d attempts when it is due", n)
	}
	if n := s.Advance(100 * time.Hour); n != 9 {
		t.Fatalf("%d attempts after the first, want 9", n)
	}
	const m, h = time.Minute, time.Hour
	want := []time.Duration{m, m + 15*time.Second}
	for _, step := range []time.Duration{3 * m, 10 * m, 30 * m, 30 * m, h, 2 * h, 6 * h, 15 * h} {
		want = append(want, want[len(want)-1]+step)
	}
	if !slices.Equal(at, want) {
		t.Errorf("at %v, want %v", at, want)
	}
	if n, err := c.Get(t.Context(), "a:b:c:1"); err != nil || n.State != client.Dead || n.Reason != "status_5xx" || len(n.Attempts) != 10 {
		t.Errorf("%+v, %v", n, err)
	}
	if got := s.Now().Sub(start); got != time.Minute+100*time.Hour {
		t.Errorf("the clock shows %s", got)
	}
}

// A receiver may call the API during an attempt, and cancel the notice of that attempt.
func TestReceiverMayCallAPI(t *testing.T) {
	var s *clienttest.Service
	s = clienttest.New(clienttest.Options{Receiver: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := s.Client().Cancel(context.Background(), r.Header.Get("Notifier-Key"))
		if err != nil || !n.InFlight {
			t.Errorf("%+v, %v", n, err)
		}
		w.WriteHeader(http.StatusInternalServerError)
	})})
	defer s.Close()
	if _, err := s.Client().Schedule(t.Context(), client.Request{Key: "a:b:c:1", URL: "https://shop.example/"}); err != nil {
		t.Fatal(err)
	}
	if n := s.Advance(time.Hour); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n, err := s.Client().Get(t.Context(), "a:b:c:1"); err != nil || n.State != client.Cancelled {
		t.Errorf("%+v, %v", n, err)
	}
}

// An attempt without a report fails. After the last attempt the notice is dead.
func TestUnreportedEntryIsRetried(t *testing.T) {
	s := clienttest.New(clienttest.Options{Routes: []clienttest.Route{{Name: "jobs", Prefix: "a", Target: "stream:jobs", Report: true,
		Timeout: time.Minute, Retry: []time.Duration{time.Second}}}})
	defer s.Close()
	if _, err := s.Client().Schedule(t.Context(), client.Request{Key: "a:b:c:1", Body: []byte("7")}); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Hour)
	got := s.Take("jobs")
	if len(got) != 2 || got[0].Attempt != 1 || got[1].Attempt != 2 || got[0].ID != got[1].ID || string(got[1].Body) != "7" {
		t.Errorf("%+v", got)
	}
	if n, err := s.Client().Get(t.Context(), "a:b:c:1"); err != nil || n.State != client.Dead || n.Reason != "unreported" {
		t.Errorf("%+v, %v", n, err)
	}
	if len(s.Take("jobs")) != 0 {
		t.Error("entries are taken once")
	}
}

func TestUnsupportedCallIsNotFound(t *testing.T) {
	s := clienttest.New(clienttest.Options{})
	defer s.Close()
	if _, err := s.Client().Stats(t.Context()); !client.IsStatus(err, http.StatusNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := s.Client().RescheduleIn(t.Context(), "a:b:c:1", time.Hour); !client.IsStatus(err, http.StatusMethodNotAllowed) &&
		!client.IsStatus(err, http.StatusNotFound) {
		t.Errorf("%v", err)
	}
}

// A producer with retries survives a short outage.
func TestFailSimulatesOutage(t *testing.T) {
	s := clienttest.New(clienttest.Options{})
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.Fail(2, http.StatusServiceUnavailable)
	if n, err := c.Schedule(t.Context(), client.Request{Key: "a:b:c:1", URL: "https://shop.example/"}); err != nil || !n.Created {
		t.Errorf("%+v, %v", n, err)
	}
	s.Fail(1, http.StatusInsufficientStorage)
	if _, err := c.Schedule(t.Context(), client.Request{Key: "a:b:c:2", URL: "https://shop.example/"}); !client.IsStatus(err, 507) {
		t.Errorf("%v", err)
	}
	if _, err := c.Get(t.Context(), "a:b:c:2"); !client.IsStatus(err, 404) {
		t.Errorf("the refused notice exists: %v", err)
	}
}

// New panics if a route is invalid.
func TestNewRefusesInvalidRoute(t *testing.T) {
	for _, r := range []clienttest.Route{{}, {Name: "a", Target: "queue:x"}, {Name: "a", Target: "list:"}, {Name: "a", Target: "ftp://x"},
		{Name: "a", Secret: "whsec_"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was accepted", r)
				}
			}()
			clienttest.New(clienttest.Options{Routes: []clienttest.Route{r}}).Close()
		}()
	}
}

// Without a Receiver the callback goes over the network, here to a closed port.
func TestWithoutReceiverCallsUseNetwork(t *testing.T) {
	s := clienttest.New(clienttest.Options{})
	defer s.Close()
	if _, err := s.Client().Schedule(t.Context(), client.Request{Key: "a:b:c:1", URL: "http://127.0.0.1:1/"}); err != nil {
		t.Fatal(err)
	}
	s.Advance(0)
	n, err := s.Client().Get(t.Context(), "a:b:c:1")
	if err != nil || n.State != client.Scheduled || len(n.Attempts) != 1 || n.Attempts[0].Reason != "connect" {
		t.Errorf("%+v, %v", n, err)
	}
}

// A test of a program that closes unpaid orders.
func ExampleService_Advance() {
	shop := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("closed by", r.Header.Get("Notifier-Key"))
	})
	service := clienttest.New(clienttest.Options{Receiver: shop})
	defer service.Close()

	// The program under test gets service.URL, or this client.
	c := service.Client()
	for _, order := range []string{"1", "2"} {
		if _, err := c.Schedule(context.Background(), client.Request{Key: "shop:orders:close:" + order, Delay: 15 * time.Minute,
			URL: "https://shop.example/close"}); err != nil {
			panic(err)
		}
	}
	if _, err := c.Cancel(context.Background(), "shop:orders:close:1"); err != nil { // it is paid
		panic(err)
	}

	fmt.Println(service.Advance(14*time.Minute), "calls in the first 14 minutes")
	service.Advance(time.Minute)
	// Output:
	// 0 calls in the first 14 minutes
	// closed by shop:orders:close:2
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"notifier/client"
	"notifier/client/clienttest"
)

// service returns an in-memory service. A program gets the URL of a real one from NOTIFIER_URL.
func service() *clienttest.Service {
	return clienttest.New(clienttest.Options{Receiver: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}), Start: time.Date(2031, 1, 1, 9, 0, 0, 0, time.UTC)})
}

// Notify a merchant in 15 seconds. A repeated call, for example after a timeout, changes nothing. A call
// with the same key and different content is refused.
func ExampleClient_Schedule() {
	s := service()
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	request := client.Request{
		Key:   "shop:orders:paid:4711",
		Delay: 15 * time.Second,
		URL:   "https://merchant.example/paid",
		Body:  []byte(`{"order":"4711","paid":"12.50"}`),
	}
	for range 2 {
		n, err := c.Schedule(context.Background(), request)
		if err != nil {
			panic(err)
		}
		fmt.Println(n.State, "for", n.Due.Format(time.TimeOnly), "created:", n.Created)
	}

	request.Body = []byte(`{"order":"4711","paid":"99.00"}`)
	_, err = c.Schedule(context.Background(), request)
	var p *client.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Differs)
	}
	// Output:
	// scheduled for 09:00:15 created: true
	// scheduled for 09:00:15 created: false
	// 409 [body]
}

// Read the attempts of a notice, and redrive it.
func ExampleClient_Get() {
	s := service()
	defer s.Close()
	c := s.Client()
	ctx := context.Background()
	if _, err := c.Schedule(ctx, client.Request{Key: "shop:orders:paid:4711", URL: "https://merchant.example/paid",
		Retry: client.Ladder(time.Second, time.Minute)}); err != nil {
		panic(err)
	}
	s.Advance(time.Hour)

	n, err := c.Get(ctx, "shop:orders:paid:4711")
	if err != nil {
		panic(err)
	}
	fmt.Println(n.State, n.Reason)
	for _, a := range n.Attempts {
		fmt.Println(a.N, a.At.Format(time.TimeOnly), a.Status)
	}
	if n, err = c.Redrive(ctx, n.Key); err == nil {
		fmt.Println(n.State, "again")
	}
	// Output:
	// dead status_5xx
	// 1 09:00:00 503
	// 2 09:00:01 503
	// 3 09:01:01 503
	// scheduled again
}

// List all dead letters, page by page.
func ExampleClient_List() {
	s := service()
	defer s.Close()
	c := s.Client()
	ctx := context.Background()
	for i := range 3 {
		if _, err := c.Schedule(ctx, client.Request{Key: fmt.Sprint("shop:orders:paid:", i), URL: "https://merchant.example/paid",
			Retry: client.Ladder()}); err != nil {
			panic(err)
		}
	}
	s.Advance(0)

	q := client.Query{State: client.Dead, Limit: 2}
	for {
		page, err := c.List(ctx, q)
		if err != nil {
			panic(err)
		}
		for _, n := range page.Items {
			fmt.Println(n.Key, n.Reason)
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	// Output:
	// shop:orders:paid:0 status_5xx
	// shop:orders:paid:1 status_5xx
	// shop:orders:paid:2 status_5xx
}

// A key without a notice: never scheduled, or settled and trimmed.
func ExampleIsStatus() {
	s := service()
	defer s.Close()
	_, err := s.Client().Get(context.Background(), "shop:orders:paid:none")
	fmt.Println(client.IsStatus(err, http.StatusNotFound))
	// Output:
	// true
}

// Command payment-notice notifies a merchant of a payment until the merchant acknowledges it.
//
// The merchant's server is down at first, then answers with an error, then accepts the notice. The server checks the
// signature, and recognises a repeated notice by the webhook-id. To run the example, start the service, and then the
// program in another terminal:
//
//	env $(cat examples/serve.env) go run ./cmd/notifier serve --embedded
//	go run ./examples/payment-notice
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"notifier/client"
	"notifier/client/webhook"
)

var unit = flag.Duration("unit", time.Second, "the ladder's first step")

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	flag.Parse()
	ctx := context.Background()
	api, err := client.New(client.Options{URL: cmp.Or(os.Getenv("NOTIFIER_URL"), "http://127.0.0.1:8080"), Token: os.Getenv("NOTIFIER_TOKEN")})
	check(err)
	defer api.Close()

	// Done once, when the merchant signs up: get the key with which this merchant verifies callbacks. The key is
	// derived from the route's secret for the merchant's host. With the secret itself, each merchant could forge
	// notices for the others. "notifier secret shop --host 127.0.0.1" prints the same key.
	his, err := api.ReceiverSecret(ctx, client.Receiver{Route: "shop", Host: "127.0.0.1"})
	check(err)
	signed, err := webhook.New(his.Secrets...)
	check(err)

	// An address without a listener.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	address := listener.Addr().String()
	check(listener.Close())

	_, err = api.Schedule(ctx, client.Request{
		Key: fmt.Sprintf("shop:payments:paid:4711-%d", os.Getpid()),
		URL: "http://" + address + "/paid",
		// In production: 15s, 3m, 10m, 30m, 30m, 1h, 2h, 6h, 15h, which is a route's default.
		Retry: client.Ladder(*unit, *unit, 2**unit, 3**unit, 5**unit, 8**unit),
		Body:  []byte(`{"order":"4711","paid":"12.50"}`),
	})
	check(err)
	log.Print("the payment is made; the notice to the merchant is scheduled")

	// The merchant's server starts a moment later.
	time.Sleep(*unit / 2)
	listener, err = net.Listen("tcp", address)
	check(err)
	paid := make(chan int, 1)
	seen := map[string]bool{} // in earnest: a unique column of the table
	go func() {
		check(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := webhook.Payload(r, 1<<20)
			if err == nil {
				err = signed.Verify(r.Header, body)
			}

			if err != nil {
				log.Printf("refused: %v", err)
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}

			attempt := r.Header.Get("Notifier-Attempt")
			if attempt < "3" {
				log.Printf("attempt %s: the merchant's database is down", attempt)
				http.Error(w, "database", http.StatusInternalServerError)
				return
			}

			if id := r.Header.Get("Webhook-Id"); !seen[id] {
				seen[id] = true
				log.Printf("attempt %s: the merchant books %s", attempt, body)
				paid <- len(seen)
			}

			w.WriteHeader(http.StatusOK) // also for one that he has had already
		})))
	}()
	if <-paid != 1 {
		log.Fatal("wrong: booked twice")
	}

	fmt.Println("done: the merchant has booked the payment once")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Command poll-refund polls a bank until a refund is completed.
//
// Each poll is one attempt of a notice, a callback that the service retries. The handler asks the bank once. It answers
// 200 if the refund is completed, and 503 to be called again. The delays between attempts grow, and the polling ends
// after the last one. The shop stores no state, so any of its servers may handle the callback. To run the example,
// start the service, and then the program in another terminal:
//
//	env $(cat examples/serve.env) go run ./cmd/notifier serve --embedded
//	go run ./examples/poll-refund
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
	"sync/atomic"
	"time"

	"notifier/client"
)

var unit = flag.Duration("unit", time.Second, "length of a simulated minute")

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	flag.Parse()
	ctx := context.Background()
	api, err := client.New(client.Options{URL: cmp.Or(os.Getenv("NOTIFIER_URL"), "http://127.0.0.1:8080"), Token: os.Getenv("NOTIFIER_TOKEN")})
	check(err)
	defer api.Close()
	key := fmt.Sprintf("shop:refunds:poll:refund-7-%d", os.Getpid())

	// The bank needs a while.
	var asked atomic.Int32
	bank := func() string {
		if asked.Add(1) < 4 {
			return "processing"
		}
		return "refunded"
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	end := make(chan string, 1)
	go func() {
		check(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			state := bank()
			log.Printf("question %s: the bank says %s", r.Header.Get("Notifier-Attempt"), state)
			if state == "processing" {
				// Kept with the attempt, for people who ask why it takes so long.
				http.Error(w, state, http.StatusServiceUnavailable)
				return
			}

			end <- state
		})))
	}()

	// First after one minute, then 1, 2, 4 and 8 minutes later; then it is dead, and
	// `notifier list --state dead` shows it to a person.
	_, err = api.Schedule(ctx, client.Request{
		Key:   key,
		Delay: *unit,
		Retry: client.Ladder(*unit, 2**unit, 4**unit, 8**unit),
		URL:   "http://" + listener.Addr().String(),
		Body:  []byte(`{"refund":"7"}`),
	})
	check(err)
	log.Print("the refund is requested; notifier polls the bank from now on")

	if state := <-end; state != "refunded" {
		log.Fatalf("wrong: %s", state)
	}

	// What support sees. The notice is settled a moment after the answer.
	for {
		n, err := api.Get(ctx, key)
		check(err)
		if n.State != client.Delivered {
			time.Sleep(*unit / 10)
			continue
		}

		for _, a := range n.Attempts {
			fmt.Println(a.At.Format("15:04:05.000"), a.Status, a.Response)
		}

		fmt.Printf("done: refunded, with %d calls of the bank\n", len(n.Attempts))
		return
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Command close-unpaid-order closes orders that are not paid in time.
//
// The shop schedules a notice, a callback to itself, when the order is made, and cancels it when the order is paid. The
// handler of the callback checks the order before it closes the order, so a second call is harmless. To run the
// example, start the service, and then the program in another terminal:
//
//	env $(cat examples/serve.env) go run ./cmd/notifier serve --embedded
//	go run ./examples/close-unpaid-order
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"notifier/client"
)

var unit = flag.Duration("unit", time.Second/5, "length of a simulated minute")

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	flag.Parse()
	ctx := context.Background()
	api, err := client.New(client.Options{URL: cmp.Or(os.Getenv("NOTIFIER_URL"), "http://127.0.0.1:8080"), Token: os.Getenv("NOTIFIER_TOKEN")})
	check(err)
	defer api.Close()

	var mu sync.Mutex
	orders := map[string]string{} // id → state
	closed := make(chan string, 10)
	key := func(id string) string { return fmt.Sprintf("shop:orders:close:%s-%d", id, os.Getpid()) }

	// The shop's own handler. 200 says done; had it failed, the notice would come
	// again by the ladder.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() {
		check(http.Serve(listener, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var n struct{ Order string }
			check(json.NewDecoder(r.Body).Decode(&n))
			mu.Lock()
			defer mu.Unlock()
			if orders[n.Order] == "unpaid" {
				orders[n.Order] = "closed"
				log.Printf("%s was not paid in time: closed", n.Order)
				closed <- n.Order
			}
		})))
	}()

	// Both orders have 15 minutes.
	for _, id := range []string{"order-1", "order-2"} {
		orders[id] = "unpaid"
		_, err := api.Schedule(ctx, client.Request{
			Key:   key(id),
			Delay: 15 * *unit,
			URL:   "http://" + listener.Addr().String() + "/close",
			Body:  fmt.Appendf(nil, `{"order":%q}`, id),
		})
		check(err)
		log.Printf("%s is made; it is closed unless it is paid in time", id)
	}

	// One is paid. Should the cancel get lost, the handler finds it paid.
	mu.Lock()
	orders["order-1"] = "paid"
	mu.Unlock()
	_, err = api.Cancel(ctx, key("order-1"))
	check(err)
	log.Print("order-1 is paid; its notice is cancelled")

	id := <-closed
	mu.Lock()
	defer mu.Unlock()
	if id != "order-2" || orders["order-1"] != "paid" {
		log.Fatalf("wrong: %s was closed, and the orders are %v", id, orders)
	}

	fmt.Println("done: order-1 paid, order-2 closed")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

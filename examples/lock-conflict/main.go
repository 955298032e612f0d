// Command lock-conflict shows how a receiver postpones a notice while another process holds the lock of an order.
//
// The handler cannot take the lock, so it answers 423 with the header Retry-After. Such an answer does not count as an
// attempt, up to a hundred times. Once the lock is free, the notice is delivered as attempt 1.
//
// Consumers of a list or stream postpone a notice with exit code 75 under `notifier consume`, or with POST
// /v1/notices/{key}/defer.
//
//	env $(cat examples/serve.env) go run ./cmd/notifier serve --embedded
//	go run ./examples/lock-conflict
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
	"sync"
	"time"

	"notifier/client"
)

var unit = flag.Duration("unit", time.Second, "half the time for which the lock is held")

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	flag.Parse()
	api, err := client.New(client.Options{URL: cmp.Or(os.Getenv("NOTIFIER_URL"), "http://127.0.0.1:8080"), Token: os.Getenv("NOTIFIER_TOKEN")})
	check(err)
	defer api.Close()

	var order sync.Mutex // in earnest: SET lock:order:9 <me> NX EX 30
	order.Lock()
	log.Print("a clerk holds order 9")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	type visit struct {
		attempt string
		locked  int
	}
	done, met := make(chan visit, 1), make(chan bool, 1000)
	go func() {
		locked := 0
		check(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !order.TryLock() {
				locked++
				met <- true
				log.Printf("attempt %s: order 9 is locked, retry later", r.Header.Get("Notifier-Attempt"))
				w.Header().Set("Retry-After", "1")
				http.Error(w, "locked", http.StatusLocked)
				return
			}

			defer order.Unlock()
			log.Printf("attempt %s: order 9 is settled", r.Header.Get("Notifier-Attempt"))
			done <- visit{r.Header.Get("Notifier-Attempt"), locked}
		})))
	}()

	_, err = api.Schedule(context.Background(), client.Request{Key: fmt.Sprintf("shop:orders:settle:9-%d", os.Getpid()),
		URL: "http://" + listener.Addr().String(), Body: []byte(`{"order":9}`)})
	check(err)
	<-met
	time.Sleep(2 * *unit)
	order.Unlock()
	log.Print("the clerk lets go of order 9")

	v := <-done
	if v.attempt != "1" || v.locked == 0 {
		log.Fatalf("wrong: attempt %s after %d times locked", v.attempt, v.locked)
	}

	fmt.Println("done: the lock cost no attempt")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

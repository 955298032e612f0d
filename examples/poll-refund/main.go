// Command poll-refund asks a bank again and again until a refund is through.
//
// A refund is asked after at growing intervals and given up after a while. The
// intervals are the notice's ladder; the handler asks the bank once, and answers
// 200 when there is an end and 503 when there is none yet. Nothing is kept in
// the shop, and any of its servers may answer.
//
//	env $(cat examples/serve.env) go run ./cmd/notifier serve --embedded
//	go run ./examples/poll-refund
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

var (
	api  = cmp.Or(os.Getenv("NOTIFIER_URL"), "http://127.0.0.1:8080")
	unit = flag.Duration("unit", time.Second, "what a minute of a real shop takes here")
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	flag.Parse()
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
				// Kept with the attempt, for whoever asks why it takes so long.
				http.Error(w, state, http.StatusServiceUnavailable)
				return
			}
			end <- state
		})))
	}()

	// First after one minute, then 1, 2, 4 and 8 minutes later; then it is dead, and
	// `notifier list --state dead` shows it to a person.
	ladder := []string{}
	for _, m := range []time.Duration{1, 2, 4, 8} {
		ladder = append(ladder, (m * *unit).String())
	}
	call("POST", "/v1/notices", map[string]any{"key": key, "delay": unit.String(), "retry": ladder, "url": "http://" + listener.Addr().String(),
		"body": map[string]string{"refund": "7"}})
	log.Print("the refund is asked for; the bank is asked after it from now on")

	if state := <-end; state != "refunded" {
		log.Fatalf("wrong: %s", state)
	}
	// What support sees. The notice is settled a moment after the answer.
	for {
		var n struct {
			State    string
			Attempts []struct {
				At       time.Time
				Status   int
				Response string
			}
		}
		check(json.Unmarshal(call("GET", "/v1/notices/"+key, nil), &n))
		if n.State != "delivered" {
			time.Sleep(*unit / 10)
			continue
		}
		for _, a := range n.Attempts {
			fmt.Println(a.At.Format("15:04:05.000"), a.Status, a.Response)
		}
		fmt.Printf("done: refunded, the bank was asked %d times\n", len(n.Attempts))
		return
	}
}

// call makes one call of the API.
func call(method, path string, body any) []byte {
	var content io.Reader = http.NoBody
	if body != nil {
		b, err := json.Marshal(body)
		check(err)
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, api+path, content)
	check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+os.Getenv("NOTIFIER_TOKEN"))
	res, err := http.DefaultClient.Do(req)
	check(err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	check(err)
	if res.StatusCode >= 300 {
		log.Fatalf("%s %s: %s\n%s", method, path, res.Status, answer)
	}
	return answer
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

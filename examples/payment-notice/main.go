// Command payment-notice tells a merchant of a payment until he acknowledges.
//
// The merchant's server is down at first, then answers with an error, then takes
// the notice. It checks the signature, so that nobody else can tell it of
// payments, and knows a notice that it has had already by its webhook-id.
//
//	env $(cat examples/serve.env) go run ./cmd/notifier serve --embedded
//	go run ./examples/payment-notice
package main

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

var (
	api  = cmp.Or(os.Getenv("NOTIFIER_URL"), "http://127.0.0.1:8080")
	unit = flag.Duration("unit", time.Second, "the ladder's first step")
	// The route's secret; see serve.env.
	secret = cmp.Or(os.Getenv("SECRET"), "whsec_ZXhhbXBsZXMgYXJlIG5vdCBzZWNyZXQsIHRoaXMgaXMgb25l")
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	flag.Parse()

	// An address at which nobody listens yet.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	address := listener.Addr().String()
	check(listener.Close())

	call("/v1/notices", map[string]any{
		"key": fmt.Sprintf("shop:payments:paid:4711-%d", os.Getpid()),
		"url": "http://" + address + "/paid",
		// In earnest: 15s, 3m, 10m, 30m, 30m, 1h, 2h, 6h, 15h, which is what a route does by itself.
		"retry": []string{unit.String(), unit.String(), (2 * *unit).String(), (3 * *unit).String(), (5 * *unit).String(), (8 * *unit).String()},
		"body":  map[string]any{"order": "4711", "paid": "12.50"},
	})
	log.Print("the payment is made; the merchant is told")

	// He comes up a moment later.
	time.Sleep(*unit / 2)
	listener, err = net.Listen("tcp", address)
	check(err)
	paid := make(chan int, 1)
	seen := map[string]bool{} // in earnest: a unique column of the table
	go func() {
		check(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			check(err)
			if !genuine(r.Header, body) {
				log.Print("the signature is wrong: refused")
				http.Error(w, "signature", http.StatusUnauthorized)
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

// genuine checks a signature by Standard Webhooks: any of those sent may fit,
// since there are two while the secret is changed.
func genuine(h http.Header, body []byte) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	check(err)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for sig := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(sig), []byte(want)) {
			return true // in earnest: and if the timestamp is at most 5 minutes old
		}
	}
	return false
}

// call makes one call of the API.
func call(path string, body any) {
	b, err := json.Marshal(body)
	check(err)
	req, err := http.NewRequest("POST", api+path, bytes.NewReader(b))
	check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+os.Getenv("NOTIFIER_TOKEN"))
	res, err := http.DefaultClient.Do(req)
	check(err)
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(res.Body)
		log.Fatalf("%s: %s\n%s", path, res.Status, text)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

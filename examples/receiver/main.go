// Command receiver receives callbacks: WEBHOOK_SECRET=whsec_… PORT=8000 go run main.go
package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// events has the key of each event, and whether its work is done. A database keeps them for some days, in the transaction of the work.
var events sync.Map

func valid(h http.Header, body []byte) (right bool) {
	id, at := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}

	for secret := range strings.SplitSeq(os.Getenv("WEBHOOK_SECRET"), ",") {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) < 24 {
			log.Fatal("want secrets of 24 bytes or more")
		}

		mac := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for given := range strings.SplitSeq(h.Get("webhook-signature"), " ") {
			right = hmac.Equal([]byte(want), []byte(given)) || right
		}
	}

	return right
}

func work(body []byte) error {
	var event struct{ Order string }
	err := json.Unmarshal(body, &event)
	if err == nil {
		fmt.Println("paid", event.Order)
	}

	return err
}

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	key := r.Header.Get("webhook-id") + "#" + r.Header.Get("notifier-resend") // a resend is to be processed again
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	} else if !valid(r.Header, body) {
		w.WriteHeader(http.StatusUnauthorized)
	} else if done, again := events.LoadOrStore(key, false); again && done == false {
		w.WriteHeader(http.StatusConflict) // the same event is being processed, and is sent again later
	} else if again {
		w.WriteHeader(http.StatusOK)
	} else if err := work(body); err != nil {
		events.Delete(key) // the next attempt does the work again
		w.WriteHeader(http.StatusInternalServerError)
	} else {
		events.Store(key, true)
	}
}

func main() {
	log.Fatal(http.ListenAndServe(":"+cmp.Or(os.Getenv("PORT"), "8000"), http.HandlerFunc(receive)))
}

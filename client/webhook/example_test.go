package webhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"notifier/client/webhook"
)

// A receiver that accepts only signed callbacks.
func ExampleVerifier() {
	verifier, err := webhook.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		panic(err)
	}
	paid := func(w http.ResponseWriter, r *http.Request) {
		body, err := webhook.Payload(r, 1<<20)
		if err != nil {
			http.Error(w, "cannot read the body", http.StatusBadRequest)
			return
		}
		if err := verifier.Verify(r.Header, body); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "booked %s", body)
	}

	call := func(secret string) {
		body := `{"order":4711}`
		r := httptest.NewRequest(http.MethodPost, "/paid", strings.NewReader(body))
		if err := webhook.Sign(r.Header, "msg_1", time.Now(), []byte(body), secret); err != nil {
			panic(err)
		}
		w := httptest.NewRecorder()
		paid(w, r)
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}
	call("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	call("whsec_ZXhhbXBsZXMgYXJlIG5vdCBzZWNyZXQsIHRoaXMgaXMgb25l")
	// Output:
	// 200 booked {"order":4711}
	// 401 webhook: no signature is valid
}

// Answer 500 if the receiver's configuration is wrong, and 401 if the request is.
func ExampleVerify_errors() {
	err := webhook.Verify(http.Header{}, nil, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	switch {
	case errors.Is(err, webhook.ErrSecret):
		fmt.Println("500: our own configuration is wrong")
	case err != nil:
		fmt.Println("401:", err)
	}
	// Output:
	// 401: webhook: a header is missing or malformed: webhook-id is missing
}

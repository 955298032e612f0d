package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"notifier/client/webhook"
)

func (a *command) receive() *cobra.Command {
	rc := &receiver{app: a, seen: map[string]int{}}
	var listen, secretFile string
	var once int
	c := &cobra.Command{
		Use:   "receive",
		Short: "Run a sample receiver that prints callbacks and verifies their signatures",
		Long: `Listens for callbacks and prints each: key, attempt, how late it was, and whether
its signature is right. --fail refuses the first attempts of each notice, so that
the ladder can be watched.

The secrets are read from the variable RECEIVER_SECRET, or a file: whsec_…,
several comma-separated.`,
		Example: `  RECEIVER_SECRET=whsec_... notifier receive
  notifier receive --listen 127.0.0.1:9000 --fail 2 --secret-file /run/secrets/hook`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			secrets := a.env["RECEIVER_SECRET"]
			if secretFile != "" {
				raw, err := os.ReadFile(secretFile)
				if err != nil {
					return usage("--secret-file: %w", err)
				}
				secrets = strings.TrimSpace(string(raw))
			}
			if err := rc.secrets(secrets); err != nil {
				return err
			}
			if rc.status < 300 || rc.status > 599 {
				return usage("--status %d: want 300 to 599", rc.status)
			}
			return rc.run(cmd.Context(), listen, once)
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9000", "address to listen on")
	f.StringVar(&secretFile, "secret-file", "", "file that holds the signing secrets")
	f.IntVar(&rc.fail, "fail", 0, "refuse the first attempts of each notice")
	f.IntVar(&rc.status, "status", 500, "what refused attempts are answered")
	f.DurationVar(&rc.delay, "delay", 0, "wait before answering")
	f.StringVar(&rc.answer, "answer", "success", "what accepted attempts are answered")
	f.IntVar(&once, "count", 0, "end after so many accepted callbacks; 0 = go on")
	f.BoolVar(&a.json, "json", false, "print one line of JSON a callback")
	return c
}

// receiver is a sample of what stands at the other end.
type receiver struct {
	app    *command
	hooks  *webhook.Verifier // nil = signatures are not verified
	fail   int
	status int
	delay  time.Duration
	answer string

	mu       sync.Mutex
	seen     map[string]int // attempts by webhook-id
	accepted int
	enough   chan struct{}
}

func (rc *receiver) secrets(list string) error {
	if list == "" {
		return nil
	}
	var err error
	if rc.hooks, err = webhook.New(list); err != nil {
		return usage("%w", err)
	}
	return nil
}

func (rc *receiver) run(ctx context.Context, listen string, once int) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	rc.enough = make(chan struct{}, 1)
	s := &http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { rc.receive(w, r, once) })}
	rc.app.complain("receiving on http://%s", l.Addr())
	if rc.hooks == nil {
		rc.app.complain("no secret is given: signatures are not verified")
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-rc.enough:
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = s.Shutdown(end)
	<-done
	return err
}

func (rc *receiver) receive(w http.ResponseWriter, r *http.Request, once int) {
	body, err := webhook.Payload(r, 16<<20)
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	if rc.delay > 0 {
		t := time.NewTimer(rc.delay)
		select {
		case <-t.C:
		case <-r.Context().Done():
			t.Stop()
			return
		}
	}
	signature, ok := rc.verify(body, r.Header)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	id := r.Header.Get("Webhook-Id")
	if id == "" {
		id = r.Header.Get("Notifier-Key")
	}
	if len(rc.seen) > 1_000_000 {
		clear(rc.seen) // a sample that runs for months must not fill the memory
	}
	rc.seen[id]++
	status := http.StatusOK
	switch {
	case !ok:
		status = http.StatusUnauthorized
	case rc.seen[id] <= rc.fail:
		status = rc.status
	default:
		rc.accepted++
	}
	rc.print(r, body, signature, status)
	w.WriteHeader(status)
	if status == http.StatusOK {
		_, _ = io.WriteString(w, rc.answer) // the sender has gone
	} else {
		_, _ = io.WriteString(w, "refused by the sample receiver: signature "+signature)
	}
	if once > 0 && rc.accepted == once {
		select {
		case rc.enough <- struct{}{}:
		default:
		}
	}
}

// verify says what there is to say of the signature.
func (rc *receiver) verify(payload []byte, h http.Header) (string, bool) {
	if rc.hooks == nil {
		return "not verified", true
	}
	err := rc.hooks.Verify(h, payload)
	switch {
	case err == nil:
		return "right", true
	case h.Get("Webhook-Signature") == "":
		return "missing", false
	case errors.Is(err, webhook.ErrSignature):
		return "wrong", false
	}
	return "too old or without a time", false
}

func (rc *receiver) print(r *http.Request, body []byte, signature string, status int) {
	var late *float64 // ms
	if due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Notifier-Due")); err == nil {
		ms := float64(time.Since(due).Microseconds()) / 1000
		late = &ms
	}
	if rc.app.json {
		// One that cannot be printed is none of the sender's business.
		_ = rc.app.sayLineOf(map[string]any{"key": r.Header.Get("Notifier-Key"), "attempt": r.Header.Get("Notifier-Attempt"),
			"id": r.Header.Get("Webhook-Id"), "late_ms": late, "signature": signature, "status": status, "body": string(body)})
		return
	}
	lateness := "-"
	if late != nil {
		lateness = millis(*late) + " late"
	}
	rc.app.say("%s  %s  attempt %s  %s  signature %s  → %d  %s\n", time.Now().UTC().Format("15:04:05.000"),
		dash(clean(r.Header.Get("Notifier-Key"))), dash(clean(r.Header.Get("Notifier-Attempt"))), lateness, clean(signature), status,
		short(string(body), 100))
}

package cli

import (
	"context"
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
	var listen, secretFile, then string
	var once, fail, status int
	c := &cobra.Command{
		Use:   "receive",
		Short: "Run a sample receiver that prints callbacks and verifies their signatures",
		Long: `Listens for callbacks and prints each: key, attempt, lateness, and whether its signature is
valid. --then is a script of the answers to each notice's attempts: 500x3,timeout,200 refuses
three, lets the fourth run into the sender's timeout, and accepts the fifth and all later
ones. reset closes the connection.

The secrets are read from the variable RECEIVER_SECRET, or a file: whsec_…, or the keys of
sorted and sorted-jeepay, several comma-separated. Schemes with public keys (standard-ed25519, wechatpay, alipay, jws) need
--key-file or --key-set.`,
		Example: `  RECEIVER_SECRET=whsec_... notifier receive
  notifier receive --then 500x3,timeout,200 --delay 200ms
  notifier receive --listen 127.0.0.1:9000 --fail 2 --secret-file /run/secrets/hook
  notifier receive --sign jws --key-set https://notifier.example/.well-known/jwks.json --host shop.example`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := rc.script(then, fail, status); err != nil {
				return err
			}

			rc.hooks.secrets = a.env["RECEIVER_SECRET"]
			if secretFile != "" {
				raw, err := os.ReadFile(secretFile)
				if err != nil {
					return usage("--secret-file: %w", err)
				}

				rc.hooks.secrets = strings.TrimSpace(string(raw))
			}

			if err := rc.hooks.prepare(cmd.Flags().Changed("sign")); err != nil {
				return err
			}

			return rc.run(cmd.Context(), listen, once)
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9000", "address to listen on")
	f.StringVar(&secretFile, "secret-file", "", "file with the signing secrets")
	rc.hooks.flags(f)
	f.StringVar(&then, "then", "", "answers to the attempts of each notice: 500x3,timeout,200; the last one is repeated")
	f.IntVar(&fail, "fail", 0, "refuse the first attempts of each notice")
	f.IntVar(&status, "status", 500, "status of refused attempts")
	f.DurationVar(&rc.delay, "delay", 0, "wait before answering")
	f.StringVar(&rc.answer, "answer", "success", "body of accepted attempts")
	f.IntVar(&once, "count", 0, "end after this number of accepted callbacks; 0 = never")
	f.BoolVar(&a.json, "json", false, "print one line of JSON a callback")
	a.either(c, false, "then", "fail")
	a.either(c, false, "then", "status")
	return c
}

// receiver is a sample of a merchant's endpoint.
type receiver struct {
	app     *command
	hooks   signatures
	answers answers
	delay   time.Duration
	answer  string

	mu       sync.Mutex
	seen     map[string]int // attempts by webhook-id
	accepted int
	enough   chan struct{}
	ending   chan struct{} // closed when the receiver stops
}

// script reads --then, or --fail and --status.
func (rc *receiver) script(then string, fail, status int) (err error) {
	if then != "" {
		rc.answers, err = parseAnswers(then)
		return err
	}

	if status < 300 || status > 599 {
		return usage("--status %d: want 300 to 599", status)
	}
	if fail < 0 || fail > maxAnswers {
		return usage("--fail %d: want 0 to %d", fail, maxAnswers)
	}

	rc.answers = refusals(fail, status)
	return nil
}

func (rc *receiver) run(ctx context.Context, listen string, once int) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}

	rc.enough, rc.ending = make(chan struct{}, 1), make(chan struct{})
	s := &http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { rc.receive(w, r, once) })}
	rc.app.complain("receiving on http://%s", l.Addr())
	if len(rc.hooks.all) == 0 {
		rc.app.complain("no secret given: signatures are not verified")
	}

	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	case <-rc.enough:
	}

	close(rc.ending)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = s.Shutdown(end)
	<-done
	return err
}

func (rc *receiver) receive(w http.ResponseWriter, r *http.Request, once int) {
	body, err := webhook.Payload(r, 16<<20)
	if err != nil {
		http.Error(w, "cannot read the body", http.StatusBadRequest)
		return
	}

	signature, ok := rc.hooks.verify(r.Context(), r.Header, body)
	id := r.Header.Get("Webhook-Id")
	if id == "" {
		id = r.Header.Get("Notifier-Key")
	}

	do := rc.choose(id, ok)
	rc.print(r, body, signature, do)

	if !rc.wait(r.Context()) {
		panic(http.ErrAbortHandler) // closes the connection without a response
	}

	rc.respond(w, r, do, signature)
	if once > 0 && do.accepts() && rc.accept() == once {
		select {
		case rc.enough <- struct{}{}:
		default:
		}
	}
}

// wait waits for --delay, and returns false if the sender or this command ends first.
func (rc *receiver) wait(sender context.Context) bool {
	t := time.NewTimer(rc.delay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-sender.Done():
	case <-rc.ending:
	}

	return false
}

// choose returns the reply to the next attempt of a notice.
func (rc *receiver) choose(id string, verified bool) reply {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if len(rc.seen) > 1_000_000 {
		clear(rc.seen) // a long-running sample must not fill the memory
	}

	rc.seen[id]++
	if !verified {
		return reply{status: http.StatusUnauthorized}
	}

	return rc.answers.of(rc.seen[id])
}

// accept counts an accepted callback.
func (rc *receiver) accept() int {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.accepted++
	return rc.accepted
}

// respond sends the reply.
func (rc *receiver) respond(w http.ResponseWriter, r *http.Request, do reply, signature string) {
	switch {
	case do.hangs:
		select {
		case <-r.Context().Done(): // the sender has closed the connection
		case <-rc.ending:
		}
		panic(http.ErrAbortHandler) // closes the connection without a response
	case do.resets:
		panic(http.ErrAbortHandler)
	}

	w.WriteHeader(do.status)
	if do.accepts() {
		_, _ = io.WriteString(w, rc.answer) // the sender may have disconnected
		return
	}

	_, _ = io.WriteString(w, "refused by the sample receiver: signature "+signature)
}

func (rc *receiver) print(r *http.Request, body []byte, signature string, do reply) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	var late *float64 // ms
	if due, err := time.Parse(time.RFC3339Nano, r.Header.Get("Notifier-Due")); err == nil {
		ms := float64(time.Since(due).Microseconds()) / 1000
		late = &ms
	}

	if rc.app.json {
		// A failure to print must not affect the sender.
		_ = rc.app.sayLineOf(map[string]any{"key": r.Header.Get("Notifier-Key"), "attempt": r.Header.Get("Notifier-Attempt"),
			"id": r.Header.Get("Webhook-Id"), "late_ms": late, "signature": signature, "status": do.status, "answer": do.String(),
			"body": string(body)})
		return
	}

	lateness := "-"
	if late != nil {
		lateness = millis(*late) + " late"
	}

	rc.app.say("%s  %s  attempt %s  %s  signature %s  → %s  %s\n", time.Now().UTC().Format("15:04:05.000"),
		dash(clean(r.Header.Get("Notifier-Key"))), dash(clean(r.Header.Get("Notifier-Attempt"))), lateness, clean(signature), do,
		short(string(body), 100))
}

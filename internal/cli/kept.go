package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"notifier/client"
	"notifier/internal/notice"
)

// keptLine is a line of a file that import reads, if it shows a notice that was kept:
// by notifier export (Outcome), by notifier list or by the pages' download (State).
type keptLine struct {
	Key         string            `json:"key"`
	ID          string            `json:"id"`
	State       string            `json:"state"`
	Outcome     string            `json:"outcome"`
	CreatedAt   string            `json:"created_at"`
	URL         string            `json:"url"`
	Audience    string            `json:"audience"`
	Method      string            `json:"method"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Withheld    []string          `json:"headers_withheld"`
	Retry       []string          `json:"retry"`
	OnDuplicate string            `json:"on_duplicate"`
	Body        json.RawMessage   `json:"body"`
	BodyBase64  string            `json:"body_base64"`
	BodyKept    *bool             `json:"body_kept"`
	Unreadable  []string          `json:"unreadable"`
	Masked      bool              `json:"masked"`
}

// readKept reads a line; ok is false if it is one that says what to schedule.
func readKept(line []byte) (k keptLine, ok bool) {
	if !bytes.Contains(line, []byte(`"created_at"`)) || json.Unmarshal(line, &k) != nil {
		return keptLine{}, false
	}
	return k, k.ID != "" && k.CreatedAt != "" && (k.State != "") != (k.Outcome != "")
}

// pending reports whether it had not ended.
func (k *keptLine) pending() bool { return k.State == client.Scheduled || k.State == client.Claimed }

// dead reports whether it was a dead letter.
func (k *keptLine) dead() bool { return k.State == client.Dead || k.Outcome == client.Dead }

// whole says what is missing of it that it takes to send it as it would have been.
func (k *keptLine) whole() error {
	switch {
	case k.Masked:
		return errors.New("parts of it were masked")
	case len(k.Unreadable) > 0:
		return fmt.Errorf("the history cannot read its %s", k.Unreadable[0])
	case k.BodyKept != nil && !*k.BodyKept:
		return errors.New("the history has not kept its body")
	case len(k.Withheld) > 0:
		return fmt.Errorf("its header %s, whose value is a secret, was not kept", k.Withheld[0])
	case notice.PasswordMissing(k.URL, k.Outcome != ""):
		return errors.New("its url names a user, whose password was not kept")
	}
	return nil
}

// request schedules the same again, for now.
func (k *keptLine) request() ([]byte, error) {
	r := map[string]any{"key": k.Key}
	for name, value := range map[string]string{"url": k.URL, "audience": k.Audience, "method": k.Method, "on_duplicate": k.OnDuplicate, "body_base64": k.BodyBase64} {
		if value != "" {
			r[name] = value
		}
	}
	if k.ContentType != "" && (k.ContentType != "application/json" || k.Body == nil) { // shown of a JSON body whose type was not given
		r["content_type"] = k.ContentType
	}
	if len(k.Headers) > 0 {
		r["headers"] = k.Headers
	}
	if k.Retry != nil {
		r["retry"] = k.Retry
	}
	line, err := json.Marshal(r)
	if err != nil || k.Body == nil {
		return line, err
	}
	// Byte for byte as it was: an encoder would compact it.
	line = append(line[:len(line)-1], `,"body":`...)
	return append(append(line, k.Body...), '}'), nil
}

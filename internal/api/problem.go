package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"notifier/internal/codec"
)

// Problem is an error as RFC 9457 describes it.
type Problem struct {
	Type   string        `json:"type,omitempty" doc:"The kind of problem, if it has a name: unconfirmed or moved."`
	Title  string        `json:"title" doc:"The text of the status."`
	Status int           `json:"status" doc:"The HTTP status."`
	Detail string        `json:"detail,omitempty" doc:"The mistake in this request, and the remedy."`
	Errors []codec.Wrong `json:"errors,omitempty" doc:"The invalid fields."`
	State  string        `json:"state,omitempty" doc:"With 409: the state of the notice."`
	// Differs are the fields in which a duplicate differs.
	Differs []string `json:"differs,omitempty" doc:"With 409 for a duplicate: the fields that differ from the stored notice, such as body or due."`

	header http.Header
}

func (p *Problem) Error() string {
	parts := []string{fmt.Sprintf("%d %s", p.Status, p.Title)}
	if p.Detail != "" {
		parts = append(parts, p.Detail)
	}

	for _, e := range p.Errors {
		parts = append(parts, e.Location+": "+e.Message)
	}

	return strings.Join(parts, "; ")
}

func problem(status int, format string, a ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, a...)}
}

// tooFast returns the answer to a client that has used up its rate.
func tooFast(client string, wait time.Duration) *Problem {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return problem(http.StatusTooManyRequests, "client %s makes more requests than its rate allows; nothing was done. Repeat the call in %d s",
		client, seconds).
		with("Retry-After", strconv.Itoa(seconds))
}

// unconfirmed is the type of the answer to a write that was stored and not confirmed.
const unconfirmed = "unconfirmed"

// moved is the type of the answer for a notice that is on the other Redis of a migration.
const moved = "moved"

// as sets the type.
func (p *Problem) as(kind string) *Problem {
	p.Type = kind
	return p
}

// with adds a header.
func (p *Problem) with(name, value string) *Problem {
	if p.header == nil {
		p.header = http.Header{}
	}

	p.header.Set(name, value)
	return p
}

func (p *Problem) write(w http.ResponseWriter) {
	data, err := json.Marshal(p)
	if err != nil { // impossible: the problem contains strings and numbers only
		data = []byte(`{"title":"Internal Server Error","status":500}`)
		p.Status = http.StatusInternalServerError
	}

	data = escapeHidden(data)
	for name, values := range p.header {
		w.Header()[name] = values
	}

	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(data, '\n')) // an error means that the caller has disconnected
}

// refusal returns the answer to a request with faults, or nil without faults.
func refusal(f codec.Faults) *Problem {
	if len(f) == 0 {
		return nil
	}

	first := f[0]
	p := problem(http.StatusUnprocessableEntity, "%s: %s", first.Location, first.Message)
	if len(f) > 1 {
		p.Detail += fmt.Sprintf(" (and %d more)", len(f)-1)
	}

	p.Errors = f
	return p
}

// notJSON returns the answer to a body that is not valid JSON.
func notJSON(err error) *Problem {
	return problem(http.StatusBadRequest, "the request's body is not JSON: %v", err)
}

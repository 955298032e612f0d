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
	Type   string        `json:"type,omitempty" doc:"What kind of problem it is, where that has a name: unconfirmed, or moved. Without it, the status says all."`
	Title  string        `json:"title" doc:"The status in words."`
	Status int           `json:"status" doc:"The HTTP status."`
	Detail string        `json:"detail,omitempty" doc:"What is wrong with this request, and what would be right."`
	Errors []codec.Wrong `json:"errors,omitempty" doc:"Each field that is wrong."`
	State  string        `json:"state,omitempty" doc:"Of a 409: the state the notice is in."`
	// Differs names the fields in which a duplicate differs.
	Differs []string `json:"differs,omitempty" doc:"Of a duplicate's 409: the fields that differ from the notice that is kept."`

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

// tooFast is the answer to a client that has used up its rate.
func tooFast(client string, wait time.Duration) *Problem {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return problem(http.StatusTooManyRequests, "client %s makes more requests than its rate allows; nothing was done. Repeat the call in %d s",
		client, seconds).
		with("Retry-After", strconv.Itoa(seconds))
}

// unconfirmed is the type of what is stored and not confirmed.
const unconfirmed = "unconfirmed"

// moved is the type of what is not for this Redis any more, or not yet.
const moved = "moved"

// as gives it a type.
func (p *Problem) as(kind string) *Problem {
	p.Type = kind
	return p
}

// with adds a header to the answer.
func (p *Problem) with(name, value string) *Problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

func (p *Problem) write(w http.ResponseWriter) {
	data, err := json.Marshal(p)
	if err != nil { // cannot be: it holds strings and numbers only
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
	_, _ = w.Write(append(data, '\n')) // the caller has gone; nothing to be done about it
}

// refusal answers with the faults of a request, nil if there are none.
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

// notJSON answers a body whose syntax is not valid.
func notJSON(err error) *Problem {
	return problem(http.StatusBadRequest, "the request's body is not JSON: %v", err)
}

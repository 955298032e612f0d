package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Wrong is one invalid field of a request.
type Wrong struct {
	Location string `json:"location" doc:"The place of the field: body.key, query.limit, path.key, header.accept."`
	Message  string `json:"message" doc:"The rule it breaks."`
	Value    any    `json:"value,omitempty" doc:"The given value, shortened."`
}

// Faults lists the invalid fields of a request.
type Faults []Wrong

// maxFaults bounds the answer to a hostile request.
const maxFaults = 20

// Full reports whether the list has its maximum length. Reading stops then.
func (f *Faults) Full() bool { return len(*f) >= maxFaults }

// Add adds a fault. The answer contains value unless it is nil.
func (f *Faults) Add(location string, value any, format string, a ...any) {
	if !f.Full() {
		*f = append(*f, Wrong{Location: location, Message: fmt.Sprintf(format, a...), Value: value})
	}
}

// AddErr adds an error of package notice without its common first word "invalid".
func (f *Faults) AddErr(location string, value any, err error) {
	f.Add(location, value, "%s", strings.TrimPrefix(err.Error(), "invalid: "))
}

// err returns the first fault as an error, nil if there is none.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return errors.New(f[0].Location + ": " + f[0].Message)
}

// Shown returns a value for an answer: as JSON if it is short, else the beginning as text.
func Shown(raw []byte) any {
	const most = 100
	if len(raw) <= most {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			return v
		}
	}

	return Clip(string(raw), most)
}

// Clip cuts a text to that many bytes and makes it valid UTF-8.
func Clip(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

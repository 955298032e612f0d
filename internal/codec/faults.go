package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Wrong is one field that is wrong.
type Wrong struct {
	Location string `json:"location" doc:"The place of the field: body.key, query.limit, path.key, header.accept."`
	Message  string `json:"message" doc:"The rule it breaks."`
	Value    any    `json:"value,omitempty" doc:"What was given, cut short."`
}

// Faults are the wrong fields of a request.
type Faults []Wrong

// maxFaults bounds the answer to a hostile request.
const maxFaults = 20

// Full reports whether no more faults are listed. Reading stops then.
func (f *Faults) Full() bool { return len(*f) >= maxFaults }

// Add adds a fault; value is repeated in the answer unless it is nil.
func (f *Faults) Add(location string, value any, format string, a ...any) {
	if !f.Full() {
		*f = append(*f, Wrong{Location: location, Message: fmt.Sprintf(format, a...), Value: value})
	}
}

// AddErr adds an error of package notice's checks, without the word that all of them begin with.
func (f *Faults) AddErr(location string, value any, err error) {
	f.Add(location, value, "%s", strings.TrimPrefix(err.Error(), "invalid: "))
}

// err is the first fault as an error, nil if there is none.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return errors.New(f[0].Location + ": " + f[0].Message)
}

// Shown is the beginning of a value for an answer: as JSON if it is short, else as text.
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

// Clip cuts a text after so many bytes and makes it valid UTF-8.
func Clip(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

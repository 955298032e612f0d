package notice

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Attempt is one completed attempt with its result. Its JSON form is that of the API, the history and
// downloads. The record in Redis uses another form, see record.go.
type Attempt struct {
	Number   int           `json:"n"`  // 1, 2, …; counts all attempts, not only the kept ones
	At       time.Time     `json:"at"` // when the handler began
	Status   int           `json:"status,omitempty" doc:"The HTTP status of the answer; absent if there was none."`
	Duration time.Duration `json:"duration_ms" doc:"To the microsecond: 12.345."`
	Reason   Reason        `json:"reason,omitempty" doc:"Why it was no delivery."`
	Response string        `json:"response,omitempty" doc:"The first 512 bytes of the answer, or the error."`
	// Sealed is the sealed text of Response, which is then empty.
	Sealed string `json:"-"`
}

// AppendJSON appends the attempt as {"n","at","status","duration_ms","reason","response"}.
func (a *Attempt) AppendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"n":`...), int64(a.Number), 10)
	b = a.At.UTC().AppendFormat(append(b, `,"at":"`...), StampLayout)
	b = append(b, '"')
	if a.Status != 0 {
		b = appendInt(b, "status", int64(a.Status))
	}

	b = strconv.AppendFloat(append(b, `,"duration_ms":`...), float64(a.Duration.Microseconds())/1000, 'f', -1, 64)
	if a.Reason != "" {
		b = appendString(b, "reason", string(a.Reason))
	}

	if a.Response != "" {
		b = appendString(b, "response", a.Response)
	}

	return append(b, '}')
}

// MarshalJSON returns the result of AppendJSON.
func (a Attempt) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil), nil }

// maxDuration is an upper bound of an attempt's duration, in ms.
const maxDuration = 1e9

var errAttempt = errors.New("not an attempt")

// UnmarshalJSON reads the form that AppendJSON writes.
func (a *Attempt) UnmarshalJSON(data []byte) error {
	var x struct {
		N          int
		At         time.Time
		Status     int
		DurationMS float64 `json:"duration_ms"`
		Reason     Reason
		Response   string
	}
	if err := json.Unmarshal(data, &x); err != nil {
		return err
	}

	year := x.At.UTC().Year() // the conversion to UTC may leave the range of years that can be written
	if x.N < 1 || x.N > maxCount || x.DurationMS < 0 || x.DurationMS > maxDuration || year < 0 || year > 9999 {
		return errAttempt
	}

	*a = Attempt{Number: x.N, At: x.At.UTC(), Status: x.Status, Duration: time.Duration(x.DurationMS*1000+0.5) * time.Microsecond,
		Reason: x.Reason, Response: x.Response}
	return nil
}

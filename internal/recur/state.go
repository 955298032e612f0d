package recur

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"notifier/internal/notice"
)

// State is how far the occurrences of a definition are.
type State struct {
	// Number is that of the last occurrence. It never decreases, and survives the deletion of the definition.
	Number int `json:"number"`
	// Changes counts the writes of the definition. A step that was planned before one of them is not made.
	Changes int `json:"changes"`
	// Cursor is the last tick that has been decided, or when the definition was stored: the next tick is after it. Unix ms.
	Cursor int64 `json:"cursor"`
	// Last is the number of the last occurrence that was stored for a tick, and LastTick this tick; 0 = there is none.
	Last     int   `json:"last,omitempty"`
	LastTick int64 `json:"tick,omitempty"`
	// The other fields count since the definition was created. Stored counts occurrences for ticks, Missed ticks without one because
	// they were missed or the content was forgotten, Overlapped ticks without one because of the policy OverlapSkip, and Occupied numbers
	// that were skipped because the key had another notice.
	Stored     int `json:"stored,omitempty"`
	Missed     int `json:"missed,omitempty"`
	Overlapped int `json:"overlapped,omitempty"`
	Occupied   int `json:"occupied,omitempty"`
}

// LastAt returns LastTick as a time; zero = there is none.
func (s State) LastAt() time.Time { return timeOf(s.LastTick) }

// Deleted returns the state that stays when the definition is deleted.
func (s State) Deleted() State { return State{Number: s.Number, Changes: s.Changes + 1} }

// Recurrence is a stored definition with its state.
type Recurrence struct {
	Definition
	State
	// Head is the stored text of the state, with which a script compares it.
	Head string
}

// Same reports whether a definition equals the stored one, but for the client, and needs no higher number.
func (r *Recurrence) Same(d *Definition) bool {
	other := *d
	other.Client = r.Client
	return r.Key == d.Key && r.Number >= d.least(r.State) && r.Definition.Encode() == other.Encode()
}

// ErrStored is wrapped by the errors of Decode.
var ErrStored = errors.New("not a stored recurrence")

// separator is between the state and the definition in a stored text. The scripts find it.
const separator = "\n"

// Encode returns the text that is stored: the state and the definition, each as JSON, on two lines. Of a deleted definition, only
// the first line is stored.
func (s State) Encode() string {
	b, _ := json.Marshal(s) // numbers only
	return string(b)
}

// Resealed returns the text that stores a definition with another content of the same meaning. Steps that were planned before are not
// made.
func (r *Recurrence) Resealed(c notice.Content) string {
	s, d := r.State, r.Definition
	s.Changes++
	d.Content = c
	return s.Encode() + separator + d.Encode()
}

// Decode parses a stored text. The definition's Key is empty if it was deleted.
func Decode(key, text string) (Recurrence, error) {
	head, body, _ := strings.Cut(text, separator)
	r := Recurrence{Head: head}
	if err := json.Unmarshal([]byte(head), &r.State); err != nil {
		return r, fmt.Errorf("%w: %s: %w", ErrStored, key, err)
	}

	if body == "" {
		return r, nil
	}

	var err error
	if r.Definition, err = DecodeDefinition(key, body); err != nil {
		return r, fmt.Errorf("%w: %s: %w", ErrStored, key, err)
	}

	return r, nil
}

// stored is the JSON form of a definition. Times are in Unix ms, durations in ms.
type stored struct {
	Cron       string          `json:"cron,omitempty"`
	Zone       string          `json:"zone,omitempty"`
	Every      int64           `json:"every,omitempty"`
	Anchor     int64           `json:"anchor,omitempty"`
	From       int64           `json:"from,omitempty"`
	Until      int64           `json:"until,omitempty"`
	Times      int             `json:"times,omitempty"`
	Missed     Missed          `json:"missed,omitempty"`
	MissedMost int             `json:"missed_most,omitempty"`
	Overlap    Overlap         `json:"overlap,omitempty"`
	Paused     bool            `json:"paused,omitempty"`
	Client     int             `json:"client,omitempty"`
	Notice     json.RawMessage `json:"notice,omitempty"` // Encode writes it, because Marshal would change the body
}

// Encode returns the JSON form of a definition, without its key.
func (d *Definition) Encode() string {
	b, _ := json.Marshal(stored{Cron: d.Spec.Cron, Zone: d.Spec.Zone, Every: d.Spec.Every.Milliseconds(), Anchor: millis(d.Spec.Anchor),
		From: millis(d.From), Until: millis(d.Until), Times: d.Times, Missed: d.Missed, MissedMost: d.MissedMost, Overlap: d.Overlap,
		Paused: d.Paused, Client: d.Client}) // texts and numbers only
	b = b[:len(b)-1]
	if len(b) > 1 {
		b = append(b, ',')
	}

	b = append(b, `"notice":`...)
	return string(append(d.Content.AppendJSON(b), '}'))
}

// DecodeDefinition parses the JSON form of a definition.
func DecodeDefinition(key, text string) (Definition, error) {
	var s stored
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Definition{}, err
	}

	c, err := notice.DecodeContent(s.Notice)
	spec := Spec{Cron: s.Cron, Zone: s.Zone, Every: time.Duration(s.Every) * time.Millisecond, Anchor: timeOf(s.Anchor)}
	return Definition{Key: key, Spec: spec, From: timeOf(s.From), Until: timeOf(s.Until), Times: s.Times,
		Missed: s.Missed, MissedMost: s.MissedMost, Overlap: s.Overlap,
		Paused: s.Paused, Client: s.Client, Content: c}, err
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

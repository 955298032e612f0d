package receivers

import (
	"context"
	"encoding/json"
)

// Cause is a route's reason of death, or its failing or paused receivers. The team of a hook gets messages about it. A cause is stored
// from before the entry of its first death leaves the outbox until the last message is scheduled. Adding an entry twice changes nothing,
// so that a kill between two steps, or a second instance, causes neither a second message nor a wrong count: the dead letters are counted
// for each message.
type Cause struct {
	Since int64 `json:"since"`          // ms, of the first death or failure
	Noted int64 `json:"noted"`          // ms, when the cause was stored
	Last  int64 `json:"last"`           // ms, of the last death, or when the last failing receiver was noticed
	Told  int64 `json:"told,omitempty"` // ms, when the last message was scheduled; 0 = none yet
	Sent  int   `json:"sent,omitempty"` // number of messages

	// Of the first one.
	Key      string `json:"key,omitempty"`
	Receiver string `json:"receiver,omitempty"`
	Status   int    `json:"status,omitempty"`
	Answer   string `json:"answer,omitempty"`
}

// ReadCause parses a stored cause. ok is false if it cannot be read, or text is empty.
func ReadCause(text string) (c *Cause, ok bool) {
	c = &Cause{}
	if text == "" || json.Unmarshal([]byte(text), c) != nil || c.Since == 0 {
		return nil, false
	}

	return c, true
}

// Text returns the stored form of a cause; empty for nil.
func (c *Cause) Text() string {
	if c == nil {
		return ""
	}

	b, _ := json.Marshal(c) // it has only numbers and texts
	return string(b)
}

// Add adds another death or failure.
func (c *Cause) Add(o *Cause) {
	c.Last = max(c.Last, o.Last)
	if o.Since < c.Since {
		c.Since, c.Key, c.Receiver, c.Status, c.Answer = o.Since, o.Key, o.Receiver, o.Status, o.Answer
	}
}

// merge adds the same cause of another Redis. The messages of the cause with more messages are continued. Another message follows if
// either cause has a death after its last message. A second merge changes nothing.
func (c *Cause) merge(o *Cause) {
	most, other := *c, *o
	if o.Sent > c.Sent || o.Sent == c.Sent && o.Noted < c.Noted {
		most, other = *o, *c
	}

	if most.Told > 0 && other.Last > other.Told { // a later time in Told would prevent the message
		most.Told = min(most.Told, other.Last-1)
	}

	most.Add(&other)
	*c = most
}

// MoveCauses moves the causes of hooks to another Redis, one after the other, and merges each with the same cause of that Redis. Causes
// that change during the call, or cannot be read, stay for the next call.
func (s *HealthStore) MoveCauses(ctx context.Context, far *HealthStore, hooks []string) error {
	for _, hook := range hooks {
		list, _, err := s.Causes(ctx, hook)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}

		there, _, err := far.Causes(ctx, hook)
		if err != nil {
			return err
		}

		for name, text := range list {
			if err := s.moveCause(ctx, far, causeAt{hook, name}, text, there[name]); err != nil {
				return err
			}
		}
	}

	return nil
}

// causeAt is the place of a cause: the prefix of its hook, and its name.
type causeAt struct{ hook, name string }

// moveCause moves one cause. there is the text that the other Redis has under its name.
func (s *HealthStore) moveCause(ctx context.Context, far *HealthStore, at causeAt, text, there string) error {
	c, ok := ReadCause(text)
	if !ok {
		return nil
	}

	if had, ok := ReadCause(there); ok {
		c.merge(had)
	}

	if stored, err := far.SetCause(ctx, at.hook, at.name, there, c.Text()); err != nil || !stored {
		return err
	}

	_, err := s.SetCause(ctx, at.hook, at.name, text, "")
	return err
}

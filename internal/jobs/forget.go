package jobs

import (
	"errors"
	"time"

	"notifier/internal/fleet"
)

// ErrHistoryKeeps means that the keys of a forgotten subject are deleted in Redis, and not in the history.
var ErrHistoryKeeps = errors.New("the keys are deleted in Redis, but not in the history")

// ErrHistoryElsewhere means that a subject cannot be forgotten or lifted here.
var ErrHistoryElsewhere = errors.New("this instance has no history (NOTIFIER_HISTORY_URL), but others have one, with keys of sealed " +
	"notices; nothing was changed: call an instance with the history")

// Forgotten is the result of forgetting a subject of sealed notices.
type Forgotten struct {
	At   time.Time
	Keys int // deleted data keys
	Job  Job // cancels the pending notices of the subject
	// Missing are the instances that may still use the deleted keys: they have published no heartbeat since the deletion, or are of an
	// earlier version.
	Missing []fleet.Instance
}

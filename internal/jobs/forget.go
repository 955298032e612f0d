package jobs

import (
	"time"

	"notifier/internal/fleet"
)

// Forgotten is the result of forgetting a subject of sealed notices.
type Forgotten struct {
	At   time.Time
	Keys int // deleted data keys
	Job  Job // cancels the pending notices of the subject
	// Missing are the instances that may still use the deleted keys: they have published no heartbeat since the deletion, or are of an
	// earlier version.
	Missing []fleet.Instance
}

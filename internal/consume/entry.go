package consume

import (
	"strconv"
	"strings"

	"notifier/internal/queue"
)

// Entry is one notice as a list or stream brings it.
type Entry struct {
	queue.Entry

	takenOver bool // from another consumer of the stream
}

// Variables are the facts as a command finds them in its environment.
func (e *Entry) Variables() []string {
	v := []string{"NOTIFIER_KEY=" + e.Key, "NOTIFIER_ID=" + e.ID, "NOTIFIER_ATTEMPT=" + strconv.Itoa(e.Attempt), "NOTIFIER_DUE=" + e.Due,
		"NOTIFIER_CONTENT_TYPE=" + e.ContentType}
	if e.Lost {
		v = append(v, "NOTIFIER_BODY=lost")
	}
	for i := range v { // a variable holds no NUL
		v[i] = strings.ReplaceAll(v[i], "\x00", "")
	}
	return v
}

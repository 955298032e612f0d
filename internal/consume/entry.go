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
	v := []string{"NOTICE_KEY=" + e.Key, "NOTICE_ID=" + e.ID, "NOTICE_ATTEMPT=" + strconv.Itoa(e.Attempt), "NOTICE_DUE=" + e.Due,
		"NOTICE_CONTENT_TYPE=" + e.ContentType}
	if e.Lost {
		v = append(v, "NOTICE_BODY=lost")
	}
	for i := range v { // a variable holds no NUL
		v[i] = strings.ReplaceAll(v[i], "\x00", "")
	}
	return v
}

package queue

import (
	"strconv"
	"strings"
)

// Received is one notice from a list or stream.
type Received struct {
	Entry

	takenOver bool // from another consumer of the group
}

// Variables returns the facts of the entry as environment variables of a command.
func (e *Received) Variables() []string {
	v := []string{"NOTICE_KEY=" + e.Key, "NOTICE_ID=" + e.ID, "NOTICE_ATTEMPT=" + strconv.Itoa(e.Attempt), "NOTICE_DUE=" + e.Due,
		"NOTICE_CONTENT_TYPE=" + e.ContentType}
	if e.Lost {
		v = append(v, "NOTICE_BODY=lost")
	}

	for i := range v { // NUL is not allowed in a variable
		v[i] = strings.ReplaceAll(v[i], "\x00", "")
	}

	return v
}

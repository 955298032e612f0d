package notice

import (
	"fmt"
	"strconv"
	"strings"
)

// Durability is the confirmation that a write waits for, beyond Redis's own answer. The zero value waits for
// nothing: Redis has the write in memory.
type Durability struct {
	// Replicas is the number of replicas that must have received the write.
	Replicas int
	// Fsync means that the master must have the write on disk.
	Fsync bool
}

// MaxReplicas is the maximum of Durability.Replicas.
const MaxReplicas = 16

// ParseDurability parses memory, replicas:N or fsync.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "memory":
		return Durability{}, nil
	case "fsync":
		return Durability{Fsync: true}, nil
	}

	if text, ok := strings.CutPrefix(s, "replicas:"); ok {
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= MaxReplicas {
			return Durability{Replicas: n}, nil
		}
	}

	return Durability{}, fmt.Errorf("want memory, fsync or replicas:N with N from 1 to %d, such as replicas:1", MaxReplicas)
}

// Waits reports whether a write waits for any confirmation.
func (d Durability) Waits() bool { return d.Fsync || d.Replicas > 0 }

// String returns the form that ParseDurability parses.
func (d Durability) String() string {
	switch {
	case d.Fsync:
		return "fsync"
	case d.Replicas > 0:
		return "replicas:" + strconv.Itoa(d.Replicas)
	}
	return "memory"
}

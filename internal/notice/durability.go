package notice

import (
	"fmt"
	"strconv"
	"strings"
)

// Durability is what a write waits for before it is confirmed, beyond Redis's own
// answer. The zero value waits for nothing: Redis has it in memory.
type Durability struct {
	// Replicas is how many replicas must have received the write.
	Replicas int
	// Fsync: the node that took the write has it on disk.
	Fsync bool
}

// MaxReplicas is the most replicas that a Durability may ask for.
const MaxReplicas = 16

// ParseDurability reads memory, replicas:N or fsync.
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

// Waits reports whether there is anything to wait for.
func (d Durability) Waits() bool { return d.Fsync || d.Replicas > 0 }

// String is what ParseDurability reads.
func (d Durability) String() string {
	switch {
	case d.Fsync:
		return "fsync"
	case d.Replicas > 0:
		return "replicas:" + strconv.Itoa(d.Replicas)
	}
	return "memory"
}

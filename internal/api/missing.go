package api

import (
	"cmp"
	"notifier/internal/wire"
)

// Missing is what an answer lacks.
type Missing struct {
	Nodes []string `json:"missing,omitempty" doc:"The nodes of a Redis cluster that do not answer: the answer is without what lies there, and no cursor leads back to it. A client with a prefix is told that there are some, and not which. Absent = nothing is missing."`
}

// missing are the nodes as the caller may know them.
func (c caller) missing(lost []wire.Lost) Missing {
	if len(lost) == 0 {
		return Missing{}
	}
	if c.Prefix != "" {
		return Missing{[]string{"a node of Redis"}}
	}
	list := make([]string, len(lost))
	for i, l := range lost {
		list[i] = cmp.Or(l.Node, "a node whose address is not known")
	}
	return Missing{list}
}

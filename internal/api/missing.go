package api

import (
	"cmp"
	"notifier/internal/wire"
)

// Missing names the nodes that an answer lacks.
type Missing struct {
	Nodes []string `json:"missing,omitempty" doc:"The nodes of a Redis cluster that do not answer. The answer lacks their notices, and the cursor does not return to them. Clients with a prefix get no addresses. Absent: no node is missing."`
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

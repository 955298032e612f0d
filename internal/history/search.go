package history

import (
	"strings"
	"sync"
)

// Limits of database connections and of text searches. A text search has no index, so it may run up to FindTimeout.
// Writes, lookups by key, and searches have separate connections, so slow searches delay neither writes nor lookups.
const (
	writeConns  = 4
	lookupConns = 2
	searchConns = 6 // more than text searches, so that other searches can run

	mostTexts         = 4
	mostTextsOfClient = 2
)

// texts counts the running searches without an index.
type texts struct {
	mu  sync.Mutex
	all int
	by  map[string]int // by client
}

// begin reports whether a client may begin another search. Each admitted search calls end.
func (t *texts) begin(client string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.all >= mostTexts || t.by[client] >= mostTextsOfClient {
		return false
	}

	if t.by == nil {
		t.by = map[string]int{}
	}

	t.all++
	t.by[client]++
	return true
}

func (t *texts) end(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.by[client]--; t.by[client] == 0 {
		delete(t.by, client)
	}
}

// isLookup reports whether a query is for one key, which an index answers.
func (q Query) isLookup() bool { return q.Key != "" && !q.Unindexed() }

// Unindexed reports whether the database must compare one row after the other. Such a search needs Since, and
// few of them run at a time.
func (q Query) Unindexed() bool {
	return q.Text != "" || q.Part != "" && q.Key == "" && q.ID == "" && strings.Count(q.Part, ":") < len(keyColumns)-1
}

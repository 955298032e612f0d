package client

import (
	"context"
	"net/url"
)

// SearchQuery is a search in Redis and in the history.
type SearchQuery struct {
	// Words all have to match: an order number, a key or its beginning, a webhook-id, a host, a state, a time such as
	// "7d" or "yesterday 10-11", or text of a body or an answer, which needs a time.
	Words string
	Zone  string // the IANA time zone of the times in Words; UTC if empty
	Limit int    // items of each section, 1 to 200; 0 = 50
	// Redis and History are the cursors of the sections of the previous answer.
	Redis, History string
}

// box returns the parameters of both calls. Words are a parameter even if empty: the service says what is missing.
func (q SearchQuery) box() url.Values {
	return filled(url.Values{"q": {q.Words}}, map[string]string{"zone": q.Zone})
}

// Found is the answer to a search.
type Found struct {
	Raw
	Redis   FoundNotices `json:"redis"`
	History FoundEndings `json:"history"`
}

// FoundSection has the members of both sections of an answer.
type FoundSection struct {
	Total  int    `json:"total"`
	Exact  bool   `json:"exact"`  // false: there are more than Total
	Note   string `json:"note"`   // why the section was not searched; empty if it was
	Cursor string `json:"cursor"` // of the next page of this section; empty on the last one
}

// FoundNotices are the notices in Redis that match.
type FoundNotices struct {
	FoundSection
	Items     []Notice `json:"items"`
	InHistory []string `json:"in_history"` // keys of items that the history has too
	Missing   []string `json:"missing"`    // nodes of a Redis cluster that do not answer
}

// FoundEndings are the matching history entries that the section of Redis does not have, latest first.
type FoundEndings struct {
	FoundSection
	Items []Ending `json:"items"`
}

// Search returns one page of each section.
func (c *Client) Search(ctx context.Context, q SearchQuery) (*Found, error) {
	v := filled(q.box(), map[string]string{"redis_cursor": q.Redis, "history_cursor": q.History, "limit": counted(q.Limit)})
	f := &Found{}
	return f, c.into(ctx, request{method: "GET", path: []string{"v1", "search"}, query: v, idempotent: true}, f)
}

// SearchCSV returns up to 100,000 matches as CSV with a line of names. Masking rules of the pages apply.
func (c *Client) SearchCSV(ctx context.Context, q SearchQuery) ([]byte, error) {
	_, raw, err := c.do(ctx, request{method: "GET", path: []string{"v1", "search.csv"}, query: q.box(), idempotent: true})
	return raw, err
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"time"
)

// ScheduleBatch schedules up to 1,000 notices. It returns one result for each request, in their order.
// The call is idempotent unless a request has OnDuplicate set to [Replace].
func (c *Client) ScheduleBatch(ctx context.Context, requests []Request) ([]Result, error) {
	lines, idempotent := make([][]byte, len(requests)), true
	for i := range requests {
		line, err := requests[i].Line()
		if err != nil {
			return nil, fmt.Errorf("notice %d: %w", i+1, err)
		}

		lines[i], idempotent = line, idempotent && requests[i].OnDuplicate != Replace
	}

	body := append(append([]byte("["), bytes.Join(lines, []byte(","))...), ']')
	_, raw, err := c.do(ctx, request{method: "POST", path: []string{"v1", "notices", "batch"}, body: body, idempotent: idempotent})
	if err != nil {
		return nil, err
	}

	var out []Result
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("cannot decode the answer to a batch: %w", err)
	}
	if len(out) != len(requests) {
		return nil, fmt.Errorf("the answer to a batch of %d has %d results", len(requests), len(out))
	}

	return out, nil
}

// Notices iterates over all notices of a listing from the query's cursor on. It stops after the first
// error.
func (c *Client) Notices(ctx context.Context, q Query) iter.Seq2[*Notice, error] {
	return pages(q.Cursor, func(cursor string) ([]Notice, string, error) {
		q.Cursor = cursor
		p, err := c.List(ctx, q)
		if err != nil {
			return nil, "", err
		}

		return p.Items, p.Cursor, nil
	})
}

// pages iterates over the items of all pages from a cursor on. It stops after the first error.
func pages[T any](cursor string, read func(cursor string) (items []T, next string, err error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			items, next, err := read(cursor)
			if err != nil {
				yield(nil, err)
				return
			}

			for i := range items {
				if !yield(&items[i], nil) {
					return
				}
			}

			if cursor = next; cursor == "" {
				return
			}
		}
	}
}

// Bulk selects the dead letters of a bulk redrive or purge. Empty fields do not filter.
type Bulk struct {
	Prefix string // app, app:module or app:module:type
	Reason string
	Status int    // with Reason: the HTTP status of the last attempt
	Host   string // the host that the notices go to
	Since  time.Time
	Until  time.Time // exclusive
	Rate   string    // of a redrive: the rate at which the notices are due, such as 5/s
	DryRun bool      // count the dead letters and change nothing
	Cursor string    // of the previous step
}

func (b Bulk) values() url.Values {
	v := Query{Prefix: b.Prefix, Reason: b.Reason, Status: b.Status, Host: b.Host, Since: b.Since, Until: b.Until, Cursor: b.Cursor}.values()
	if b.Rate != "" {
		v.Set("rate", b.Rate)
	}

	if b.DryRun {
		v.Set("dry_run", "true")
	}

	return v
}

// Redriven is the result of a step of a bulk redrive.
type Redriven struct {
	Raw
	Matched  int    `json:"matched"`
	Redriven int    `json:"redriven"`
	Cursor   string `json:"cursor"`
	// Missing lists the nodes of a Redis cluster that do not answer. Their dead letters are not redriven.
	Missing []string `json:"missing"`
}

// Purged is the result of a step of a bulk purge.
type Purged struct {
	Raw
	Matched int      `json:"matched"`
	Purged  int      `json:"purged"`
	Cursor  string   `json:"cursor"`
	Missing []string `json:"missing"` // nodes that do not answer; their dead letters are not purged
}

// RedriveRoute runs a step of a bulk redrive. Repeat it with the returned cursor until that is empty.
func (c *Client) RedriveRoute(ctx context.Context, route string, b Bulk) (*Redriven, error) {
	r := &Redriven{}
	return r, c.bulk(ctx, route, "redrive", b, r)
}

// Purge runs a step of a bulk purge, which cancels dead letters. Repeat it with the returned cursor until
// that is empty.
func (c *Client) Purge(ctx context.Context, route string, b Bulk) (*Purged, error) {
	r := &Purged{}
	return r, c.bulk(ctx, route, "purge", b, r)
}

func (c *Client) bulk(ctx context.Context, route, verb string, b Bulk, answer interface{ keep([]byte) }) error {
	return c.into(ctx, request{method: "POST", path: []string{"v1", "routes", route, verb}, query: b.values(), idempotent: b.DryRun}, answer)
}

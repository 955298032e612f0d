package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"
)

// The states of a replay.
const (
	ReplayRunning = "running"
	ReplayStopped = "stopped"
	ReplayDone    = "done" // all notices are scheduled; the history has their outcomes
	ReplayFailed  = "failed"
)

// ReplayRequest selects finalized notices to send again. Since is required. Other empty fields do not
// filter.
type ReplayRequest struct {
	// ID identifies the replay, in at most 64 letters, digits, - and _. A repeated request with the same
	// ID and content returns the same replay. Empty = a new random ID.
	ID      string
	Since   time.Time // of the time of the outcome
	Until   time.Time // exclusive
	Prefix  string    // app, app:module or app:module:type
	Host    string    // the host that the notices went to
	Outcome []State   // Delivered, Dead, or both
	Rate    string    // such as 50/s
	NewIDs  bool      // each notice gets a new webhook-id
	DryRun  bool      // count the notices and send none
}

// MarshalJSON omits empty fields.
func (r ReplayRequest) MarshalJSON() ([]byte, error) {
	v := map[string]any{"since": r.Since.Format(time.RFC3339Nano)}
	if !r.Until.IsZero() {
		v["until"] = r.Until.Format(time.RFC3339Nano)
	}

	for name, value := range map[string]string{"id": r.ID, "prefix": r.Prefix, "host": r.Host, "rate": r.Rate} {
		if value != "" {
			v[name] = value
		}
	}

	if len(r.Outcome) > 0 {
		v["outcome"] = r.Outcome
	}

	if r.NewIDs {
		v["new_ids"] = true
	}

	if r.DryRun {
		v["dry_run"] = true
	}

	return json.Marshal(v)
}

// Replay is a replay with its progress.
type Replay struct {
	Raw
	ID        string           `json:"id"` // empty of a dry run; callbacks carry it in the header notifier-replay
	State     string           `json:"state"`
	Reason    string           `json:"reason"` // the reason of a failure
	Client    string           `json:"client"`
	Since     time.Time        `json:"since"`
	Until     time.Time        `json:"until"`
	Prefix    string           `json:"prefix"`
	Host      string           `json:"host"`
	Outcome   []State          `json:"outcome"`
	Rate      string           `json:"rate"`
	NewIDs    bool             `json:"new_ids"`
	Found     int64            `json:"found"`
	Refused   map[string]int64 `json:"refused"` // notices found that cannot be sent again, by reason
	Total     int64            `json:"total"`
	Sent      int64            `json:"sent"`
	Skipped   map[string]int64 `json:"skipped"` // by reason
	Left      int64            `json:"left"`
	Hosts     []ReplayHost     `json:"hosts"` // the targets, at most 20; set in the answer to Client.Replay
	Differs   []ReplayDiffers  `json:"differs"`
	CreatedAt time.Time        `json:"created_at"`
	ChangedAt time.Time        `json:"changed_at"`
}

// ReplayHost counts the notices of a replay for one host.
type ReplayHost struct {
	Host    string `json:"host"` // empty = a list or stream
	Notices int64  `json:"notices"`
}

// ReplayDiffers counts the notices of a replay that go to another host than before.
type ReplayDiffers struct {
	Route   string `json:"route"`
	Then    string `json:"then"` // the former host; empty = none
	Now     string `json:"now"`
	Notices int64  `json:"notices"`
}

// Replays are the replays of the last 30 days, latest first.
type Replays struct {
	Raw
	Items []Replay `json:"items"`
}

// Replay starts a replay. With DryRun it only counts the notices. A repeated call with the same ID does
// not start a second replay.
func (c *Client) Replay(ctx context.Context, r ReplayRequest) (*Replay, error) {
	x := &Replay{}
	if r.ID == "" && !r.DryRun {
		r.ID = "rpl_" + strings.ToLower(rand.Text()[:20])
	}

	return x, c.send(ctx, request{method: "POST", path: []string{"v1", "replays"}, idempotent: true}, r, x)
}

// Replays lists the replays of the last 30 days.
func (c *Client) Replays(ctx context.Context) (*Replays, error) {
	x := &Replays{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "replays"}, idempotent: true}, x)
}

// ReadReplay returns a replay with its progress.
func (c *Client) ReadReplay(ctx context.Context, id string) (*Replay, error) {
	x := &Replay{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "replays", id}, idempotent: true}, x)
}

// StopReplay stops a replay. [Client.ResumeReplay] continues it.
func (c *Client) StopReplay(ctx context.Context, id string) (*Replay, error) {
	x := &Replay{}
	return x, c.into(ctx, request{method: "DELETE", path: []string{"v1", "replays", id}, idempotent: true}, x)
}

// ResumeReplay continues a stopped replay.
func (c *Client) ResumeReplay(ctx context.Context, id string) (*Replay, error) {
	x := &Replay{}
	return x, c.into(ctx, request{method: "POST", path: []string{"v1", "replays", id, "resume"}, idempotent: true}, x)
}

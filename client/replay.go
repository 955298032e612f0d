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
	ReplayDone    = "done" // all is scheduled; what comes of it, the history tells
	ReplayFailed  = "failed"
)

// ReplayRequest asks for what has ended to be sent again; empty fields are left
// out. Since is needed.
type ReplayRequest struct {
	// ID names it, in at most 64 letters, digits, - and _: asked for again in the
	// same words it is the same replay. Empty = one that nobody has.
	ID      string
	Since   time.Time // by the time of the ending
	Until   time.Time // exclusive
	Prefix  string    // app, app:module or app:module:type
	Host    string    // that was called
	Outcome []string  // Delivered, Dead, or both
	Rate    string    // such as 50/s
	NewIDs  bool      // each notice gets a new webhook-id
	DryRun  bool      // count, and send nothing
}

// MarshalJSON leaves out what is empty.
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

// Replay is what was asked to be sent again, and how far that is.
type Replay struct {
	Raw
	ID        string           `json:"id"` // empty of a dry run; callbacks carry it in the header notifier-replay
	State     string           `json:"state"`
	Reason    string           `json:"reason"` // why it failed
	Client    string           `json:"client"`
	Since     time.Time        `json:"since"`
	Until     time.Time        `json:"until"`
	Prefix    string           `json:"prefix"`
	Host      string           `json:"host"`
	Outcome   []string         `json:"outcome"`
	Rate      string           `json:"rate"`
	NewIDs    bool             `json:"new_ids"`
	Found     int64            `json:"found"`
	Refused   map[string]int64 `json:"refused"` // of those found, by why they cannot be sent again
	Total     int64            `json:"total"`
	Sent      int64            `json:"sent"`
	Skipped   map[string]int64 `json:"skipped"` // by why
	Left      int64            `json:"left"`
	Hosts     []ReplayHost     `json:"hosts"` // where they go, at most 20; only when it is made, or would be
	Differs   []ReplayDiffers  `json:"differs"`
	CreatedAt time.Time        `json:"created_at"`
	ChangedAt time.Time        `json:"changed_at"`
}

// ReplayHost says how many notices go to a host.
type ReplayHost struct {
	Host    string `json:"host"` // empty = a list or stream
	Notices int64  `json:"notices"`
}

// ReplayDiffers says how many notices go elsewhere today than they went.
type ReplayDiffers struct {
	Route   string `json:"route"`
	Then    string `json:"then"` // the host; empty = none
	Now     string `json:"now"`
	Notices int64  `json:"notices"`
}

// Replays are the replays of the last 30 days, the latest first.
type Replays struct {
	Raw
	Items []Replay `json:"items"`
}

// Replay begins a replay, or, with DryRun, says what it would do. Repeated with the
// same ID it does not begin another.
func (c *Client) Replay(ctx context.Context, r ReplayRequest) (*Replay, error) {
	x := &Replay{}
	if r.ID == "" && !r.DryRun {
		r.ID = "rpl_" + strings.ToLower(rand.Text()[:20])
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return x, c.into(ctx, request{method: "POST", path: []string{"v1", "replays"}, body: body, again: true}, x)
}

// Replays lists the latest replays.
func (c *Client) Replays(ctx context.Context) (*Replays, error) {
	x := &Replays{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "replays"}, again: true}, x)
}

// ReadReplay reads one with its progress, StopReplay stops it, and ResumeReplay
// lets it go on.
func (c *Client) ReadReplay(ctx context.Context, id string) (*Replay, error) {
	x := &Replay{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "replays", id}, again: true}, x)
}

// StopReplay stops a replay. See [Client.ReadReplay].
func (c *Client) StopReplay(ctx context.Context, id string) (*Replay, error) {
	x := &Replay{}
	return x, c.into(ctx, request{method: "DELETE", path: []string{"v1", "replays", id}, again: true}, x)
}

// ResumeReplay lets a stopped replay go on. See [Client.ReadReplay].
func (c *Client) ResumeReplay(ctx context.Context, id string) (*Replay, error) {
	x := &Replay{}
	return x, c.into(ctx, request{method: "POST", path: []string{"v1", "replays", id, "resume"}, again: true}, x)
}

package client

import (
	"context"
	"time"
)

// JobKind is the kind of a bulk change.
type JobKind string

// The kinds of bulk changes.
const (
	JobCancel  JobKind = "cancel"  // cancels pending notices
	JobRedrive JobKind = "redrive" // schedules dead letters again, due now
	JobPurge   JobKind = "purge"   // cancels dead letters
)

// JobRequest describes a bulk change. Empty fields do not filter.
type JobRequest struct {
	Kind   JobKind   `json:"kind"`
	Prefix string    `json:"prefix,omitempty"` // of the keys; a cancel needs it
	Route  string    `json:"route,omitempty"`  // name of a route
	Host   string    `json:"host,omitempty"`
	Reason string    `json:"reason,omitempty"` // of dead letters
	Status int       `json:"status,omitempty"` // with Reason: the HTTP status of the last attempt
	Since  time.Time `json:"since,omitzero"`   // a due time; of a redrive or purge a time of death
	Until  time.Time `json:"until,omitzero"`   // exclusive
	Rate   string    `json:"rate,omitempty"`   // of changes, such as 100/s, the default
	DryRun bool      `json:"dry_run,omitempty"`
}

// JobState is the state of a bulk change.
type JobState string

// The states of a bulk change.
const (
	JobRunning JobState = "running"
	JobStopped JobState = "stopped"
	JobDone    JobState = "done"
	JobFailed  JobState = "failed"
)

// Job is a bulk change with its progress.
type Job struct {
	Raw
	ID        string    `json:"id"`
	Kind      JobKind   `json:"kind"`
	State     JobState  `json:"state"`
	Problem   string    `json:"problem"` // why it failed, or why a running one retries
	Client    string    `json:"client"`
	Prefix    string    `json:"prefix"`
	Route     string    `json:"route"`
	Subject   string    `json:"subject"` // the forgotten subject whose notices it cancels
	Host      string    `json:"host"`
	Reason    string    `json:"reason"`
	Status    int       `json:"status"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Rate      string    `json:"rate"`
	Found     int64     `json:"found"`    // of a dry run: notices that match
	Complete  bool      `json:"complete"` // of a dry run: false if not all notices were read
	Changed   int64     `json:"changed"`  // notices changed so far
	Claimed   int64     `json:"claimed"`  // notices that a cancel has left, because an attempt was in flight
	Refused   int64     `json:"refused"`  // dead letters that a redrive has left, because they have expired
	Seen      int64     `json:"seen"`     // notices read so far
	Total     int64     `json:"total"`    // notices to read
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
}

// Jobs are the last 100 bulk changes, latest first.
type Jobs struct {
	Raw
	Items []Job `json:"items"`
}

// StartJob starts a bulk change. With DryRun it only counts the notices.
func (c *Client) StartJob(ctx context.Context, r JobRequest) (*Job, error) {
	x := &Job{}
	// A second job, made by a repeated call, finds the notices changed.
	return x, c.send(ctx, request{method: "POST", path: []string{"v1", "jobs"}, idempotent: r.DryRun || r.Kind != JobRedrive}, r, x)
}

// Jobs lists the bulk changes.
func (c *Client) Jobs(ctx context.Context) (*Jobs, error) {
	x := &Jobs{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "jobs"}, idempotent: true}, x)
}

// ReadJob returns a bulk change with its progress.
func (c *Client) ReadJob(ctx context.Context, id string) (*Job, error) {
	x := &Job{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "jobs", id}, idempotent: true}, x)
}

// StopJob stops a bulk change. [Client.ResumeJob] continues it.
func (c *Client) StopJob(ctx context.Context, id string) (*Job, error) {
	x := &Job{}
	return x, c.into(ctx, request{method: "DELETE", path: []string{"v1", "jobs", id}, idempotent: true}, x)
}

// ResumeJob continues a stopped bulk change.
func (c *Client) ResumeJob(ctx context.Context, id string) (*Job, error) {
	x := &Job{}
	return x, c.into(ctx, request{method: "POST", path: []string{"v1", "jobs", id, "resume"}, idempotent: true}, x)
}

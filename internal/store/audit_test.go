package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/keys"
	"notifier/internal/node"
	"notifier/internal/redistest"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	began, err := s.c.Time(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := s.Audit(ctx, audit.Entry{Client: "ops", Action: audit.Cancel, Key: fmt.Sprint("app1:a:b:", i), Result: audit.Done}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Audited(ctx, audit.Range{}, 10)
	if err != nil || len(all) != 5 || all[0].Key != "app1:a:b:4" || all[4].Key != "app1:a:b:0" || all[0].Client != "ops" {
		t.Fatalf("%+v, %v", all, err)
	}
	if at := all[4].At; at.Before(began.Truncate(time.Millisecond)) || at.After(began.Add(time.Minute)) {
		t.Errorf("%s, began %s", at, began)
	}
	for name, c := range map[string]struct {
		r     audit.Range
		limit int
		want  int
		first string
	}{
		"a page":            {audit.Range{}, 2, 2, "app1:a:b:4"},
		"the next":          {audit.Range{Before: all[1].ID}, 2, 2, "app1:a:b:2"},
		"behind the last":   {audit.Range{Before: all[4].ID}, 2, 0, ""},
		"since the first":   {audit.Range{Since: all[4].At}, 10, 5, "app1:a:b:4"},
		"since then":        {audit.Range{Since: all[0].At.Add(time.Nanosecond)}, 10, 0, ""},
		"until the first":   {audit.Range{Until: all[4].At}, 10, 0, ""},
		"until later":       {audit.Range{Until: all[0].At.Add(time.Hour)}, 10, 5, "app1:a:b:4"},
		"before and until":  {audit.Range{Before: all[1].ID, Until: all[0].At.Add(time.Hour)}, 10, 3, "app1:a:b:2"},
		"until and before":  {audit.Range{Before: all[1].ID, Until: all[4].At}, 10, 0, ""},
		"since before 1970": {audit.Range{Since: time.Unix(-5, 0)}, 10, 5, "app1:a:b:4"},
	} {
		got, err := s.Audited(ctx, c.r, c.limit)
		if err != nil || len(got) != c.want || c.want > 0 && got[0].Key != c.first {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, bad := range []string{"x", "1", "1-", "-1", "01-0", "+-1", "99999999999999999999-0", "1-0\r\nFLUSHALL"} {
		if _, err := s.Audited(ctx, audit.Range{Before: bad}, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// It is capped at about 10,000: Redis trims whole nodes of the stream.
func TestAuditIsCapped(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	pipe := s.c.Pipeline()
	for i := range 12_000 {
		pipe.Do(t.Context(), "xadd", s.space.Audit(), "*", "key", fmt.Sprint("app1:a:b:", i))
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Audit(t.Context(), audit.Entry{Action: audit.Pause}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.c.XLen(t.Context(), s.space.Audit()).Result(); err != nil || n < auditLength || n > auditLength+200 {
		t.Errorf("%d entries, %v", n, err)
	}
}

// Nobody waits for the audit of a node that hangs.
func TestAuditDoesNotWaitForASlowNode(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithConfig("cluster-enabled yes"))
	ctx := t.Context()
	if err := srv.Client().ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Address{Mode: "cluster", URL: "redis://" + srv.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s := New(Options{Client: c.UniversalClient, Space: keys.Space{Namespace: "notifier", Shards: 1}, Cluster: true, Nodes: c.Nodes})
	entry := audit.Entry{Client: "ops", Action: audit.Cancel, Result: audit.Done}
	for end := time.Now().Add(30 * time.Second); s.Audit(ctx, entry) != nil; {
		if time.Now().After(end) {
			t.Fatal("no cluster within 30 s")
		}
	}
	srv.Pause()
	var away *node.AwayError
	if err := s.Audit(ctx, entry); !errors.As(err, &away) || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("%v, want that the node is slow", err)
	}
	srv.Unpause()
	for c.Nodes.Slow(away.Addr) {
		if ctx.Err() != nil {
			t.Fatal("it stays slow")
		}
		_ = c.Ping(ctx)
	}
	if all, err := s.Audited(ctx, audit.Range{}, 10); err != nil || len(all) < 2 {
		t.Errorf("%+v, %v: the entry was under way", all, err)
	}
}

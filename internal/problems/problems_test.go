package problems_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
)

var now = time.Date(2026, 11, 29, 3, 40, 0, 0, time.UTC)

func table(t *testing.T) *route.Table {
	t.Helper()
	var list []*route.Route
	for _, name := range []string{"orders", "member"} {
		list = append(list, &route.Route{Name: name, Prefix: "app1:" + name, Target: route.Target{Kind: route.KindNotice}, Concurrency: 4})
	}
	table, err := route.NewTable(append(list, &route.Route{Name: "other", Prefix: "app2", Target: route.Target{Kind: route.KindNotice}}))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func find(t *testing.T, b *problems.Board, who auth.Caller, found ...doctor.Finding) []problems.Problem {
	t.Helper()
	return problems.Find(problems.Options{Board: b, Routes: table(t), Reader: who, Findings: found,
		Explain: func(err error) problems.Text { return problems.Plain(err.Error()) }})
}

// bad is a board with a problem of each part.
func bad() *problems.Board {
	b := &problems.Board{At: now, CountsAt: now, HealthAt: now, InstancesAt: now, Counts: []store.Counts{
		{Prefix: "app1:orders", Paused: true, Pending: 7, Overdue: 5, NextDue: now.Add(-3 * time.Minute), Dead: 40},
		{Prefix: "app1:member", Pending: 2, Overdue: 2, NextDue: now.Add(-time.Minute), Dead: 100}, {Prefix: "app2", Dead: 1},
		{Prefix: "app3", Pending: 1}}}
	b.Ready = fleet.Readiness{Ready: true, Degraded: []fleet.Condition{{Reason: "no subscription"}}}
	for i, reason := range []notice.Reason{notice.ReasonTimeout, notice.ReasonDNS, notice.ReasonConnect, notice.ReasonTLS,
		notice.ReasonReset} {
		b.Deaths = append(b.Deaths, store.DeadGroup{Prefix: "app1:orders", Cause: notice.Cause{Reason: reason}, Count: int64(20 - i),
			First: now.Add(-time.Hour), Last: now})
	}
	b.Deaths = append(b.Deaths, store.DeadGroup{Prefix: "app1:member", Cause: notice.Cause{Reason: notice.ReasonStatus5xx, Status: 503},
		Count: 100, First: now.Add(-30 * time.Minute), Last: now}, store.DeadGroup{Prefix: "app2", Count: 1, First: now, Last: now})
	h := receivers.RouteHealth{Prefix: "app1:member", Counted: now}
	for i := range 6 {
		h.Receivers = append(h.Receivers, receivers.Health{Name: fmt.Sprintf("shop%d.example:443", i), Status: 200, Reason: "ack_mismatch",
			Since: now.Add(-time.Duration(20+i) * time.Minute), LastAttempt: now, Failures: 3, Waiting: 1})
	}
	h.Receivers = append(h.Receivers, receivers.Health{Name: "alone.example:443", Reason: "dns", Since: now.Add(-time.Minute),
		LastAttempt: now, Failures: 1})
	b.Health = []receivers.RouteHealth{h, {Prefix: "app2", Others: 3}}
	b.HoldsErr = errors.New("no answer")
	b.Instances = []problems.Instance{{Instance: fleet.Instance{About: fleet.About{Label: "web-1"}, State: fleet.Alive}, Self: true,
		Figures: fleet.Figures{Hosts: []fleet.HostFigures{{Prefix: "app2", Host: "down.example:443", Breaker: "open", Calls: 9, Failed: 9}}}},
		{Instance: fleet.Instance{About: fleet.About{Label: "web-2"}, State: fleet.Unresponsive, Seen: now.Add(-9 * time.Second)}}}
	return b
}

// TestFailingReceiverWithoutKnownSuccess checks the words for a receiver that has not succeeded since its first failure.
func TestFailingReceiverWithoutKnownSuccess(t *testing.T) {
	t.Parallel()
	b := bad()
	alone := &b.Health[0].Receivers[6]
	said := func() string {
		for _, p := range find(t, b, auth.Local()) {
			if slices.Equal(p.Examples, []string{alone.Name}) {
				return p.Details()
			}
		}
		return ""
	}

	const none = "no success since its first known failure at 03:39"
	if got := said(); !strings.Contains(got, none) {
		t.Errorf("%q does not say %q", got, none)
	}

	alone.LastSuccess = now.Add(-time.Hour)
	if got := said(); got == "" || strings.Contains(got, "no success") {
		t.Errorf("with a success: %q", got)
	}
}

// TestFindOrdersProblems checks all problems of a service, deaths before failing receivers, and errors before warnings.
func TestFindOrdersProblems(t *testing.T) {
	t.Parallel()
	want := []string{
		"error dead member 100: member: 100 dead letters in the last hour, HTTP 503",
		"error dead orders 20: orders: 20 dead letters in the last hour, timeout",
		"error dead orders 19: orders: 19 dead letters in the last hour, dns",
		"error dead orders 18: orders: 18 dead letters in the last hour, connect",
		"error dead other 1: other: 1 dead letter in the last hour, no reason",
		"error dead orders 33: orders: 33 more dead letters in the last hour, of other causes",
		"error route_paused orders 5: orders is paused",
		"error overdue member 2: member is late: 2 notices waiting, the oldest for 1m",
		"error unrouted app3 1: 1 notice under app3, which no route covers",
		"error receivers_failing member 6: member: 6 receivers failing since 03:15:00 UTC, HTTP 200, ack_mismatch",
		"error no_answer other 1: down.example:443 does not answer",
		"error receivers_failing  3: About 3 more receivers failing",
		"warning degraded  0: This instance is degraded",
		"warning unresponsive_instance  0: Instance web-2 is unresponsive",
		"warning receivers_failing member 1: alone.example: failing since 03:39:00 UTC",
		"warning unknown  0: Paused receivers unknown or outdated",
		"warning setup  0: A limit of this machine is too low",
	}
	var got []string
	few := doctor.Finding{Check: doctor.MachineCheck, Severity: doctor.Warning, Message: "few files"}
	for _, p := range find(t, bad(), auth.Local(), few) {
		got = append(got, fmt.Sprintf("%s %s %s %d: %s", p.Severity, p.Kind, p.Route, p.Count, p.Title))
		if !slices.Contains(problems.Kinds, p.Kind) {
			t.Errorf("an unlisted kind: %s", p.Kind)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFindKeepsToThePrefix checks that a reader with a prefix learns nothing of other routes, instances and Redis.
func TestFindKeepsToThePrefix(t *testing.T) {
	t.Parallel()
	b := bad()
	b.Ready.Degraded = append(b.Ready.Degraded, fleet.Condition{Full: true, Reason: "Redis is full"})
	for _, p := range find(t, b, auth.Caller{Prefix: "app2", Role: auth.Read}, doctor.Finding{Severity: doctor.Error}) {
		all := fmt.Sprint(p.Title, p.Details(), p.Examples, p.Links, p.Command)
		for _, hidden := range []string{"app1", "orders", "member", "shop", "web-", "Redis", "full"} {
			if strings.Contains(all, hidden) {
				t.Errorf("%s: %s", hidden, all)
			}
		}
		if strings.Contains(all, "redrive") {
			t.Errorf("a command that a reader may not use: %s", p.Command)
		}
	}
	list := find(t, b, auth.Caller{Prefix: "app1:orders:paid", Role: auth.Operate})
	if len(list) != 1 || list[0].Kind != problems.Unknown {
		t.Errorf("a reader of a part of a route sees %v", list)
	}
}

// TestProblemsHaveARemedy checks that each problem names a command and a page.
func TestProblemsHaveARemedy(t *testing.T) {
	t.Parallel()
	for _, p := range find(t, bad(), auth.Local(), doctor.Finding{Severity: doctor.Error, Message: "x"}) {
		if p.Command == "" || len(p.Links) == 0 && p.Kind != problems.UnresponsiveMember {
			t.Errorf("%s: command %q, links %v", p.Title, p.Command, p.Links)
		}
		const redrive = "notifier redrive --route member --reason status_5xx --status 503 --rate 100/s"
		if p.Kind == problems.Dead && p.Route == "member" && (p.Command != redrive ||
			p.Links[0].Path != "/ui/dead/group?reason=status_5xx&route=member&status=503") {
			t.Errorf("%q %q", p.Command, p.Links[0].Path)
		}
	}
}

// Regression test: the command of expired dead letters was a redrive, which skips them all.
func TestExpiredDeadLettersAreListed(t *testing.T) {
	t.Parallel()
	b := &problems.Board{At: now, CountsAt: now, Deaths: []store.DeadGroup{{Prefix: "app2", Count: 1, First: now, Last: now,
		Cause: notice.Cause{Reason: notice.ReasonExpired}}}}
	for _, p := range find(t, b, auth.Local()) {
		if p.Kind == problems.Dead && p.Command == "notifier list --state dead --route "+p.Route+" --reason expired" {
			return
		}
	}
	t.Error("no problem has the command that lists them")
}

// TestFindComparesWithAChangeOfSettings checks when failing receivers are explained by a change of their route.
func TestFindComparesWithAChangeOfSettings(t *testing.T) {
	t.Parallel()
	at := func(ago time.Duration) *problems.Problem {
		b := bad()
		b.Changed = map[string]audit.Change{"member": {At: now.Add(-ago), Settings: []string{"ack", "timeout"}}}
		for _, p := range find(t, b, auth.Local()) {
			if p.Kind == problems.Failing && p.Count == 6 {
				return &p
			}
		}
		t.Fatal("no such problem")
		return nil
	}
	p := at(30 * time.Minute) // the receivers began 20 to 25 minutes ago
	if want := "since the settings of route member changed at 03:10:00 UTC · changed: ack, timeout"; !strings.Contains(p.Details(), want) ||
		!p.Changed.Equal(now.Add(-30*time.Minute)) || !p.Links[1].Compares || p.Links[1].Path != "/ui/audit?prefix=app1%3Amember" {
		t.Errorf("%s %v %v", p.Details(), p.Changed, p.Links)
	}
	if p := at(24 * time.Minute); p.Changed.IsZero() { // five of six began after it
		t.Error("most of them began after the change")
	}
	for _, ago := range []time.Duration{21 * time.Minute, 30 * time.Hour} {
		if p := at(ago); !p.Changed.IsZero() || strings.Contains(p.Details(), "changed") {
			t.Errorf("%s ago: %s", ago, p.Details())
		}
	}
}

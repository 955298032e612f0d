package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/receivers"
	"notifier/internal/ui"
)

// TestReceiversThatFailAlikeAreOneProblem checks the first page while a route's receivers fail with the same answer, and others alone.
func TestReceiversThatFailAlikeAreOneProblem(t *testing.T) {
	s := newSite(t)
	now := time.Now().UTC()
	route := receivers.RouteHealth{Prefix: "app1:orders", Counted: now}
	for i := range 30 {
		route.Receivers = append(route.Receivers, receivers.Health{Name: fmt.Sprintf("shop%d.example:443", i), Status: 200,
			Reason: "ack_mismatch", Since: now.Add(-time.Duration(10+i) * time.Minute), LastAttempt: now.Add(-time.Minute), Failures: 3, Waiting: 2})
	}

	for i, status := range []int{500, 500, 500, 502} { // three alike are too few
		route.Receivers = append(route.Receivers, receivers.Health{Name: fmt.Sprintf("alone%d.example:443", i), Status: status,
			Reason: "status_5xx", Since: now.Add(-time.Minute), LastAttempt: now.Add(-time.Second), Failures: 1})
	}

	s.health = &physician{routes: []receivers.RouteHealth{route}}
	page := s.as(ui.Visitor{}).get("/ui/").is(200)
	page.says("orders: 30 receivers failing since ", "HTTP 200, ack_mismatch", "60 waiting", "first of them: ",
		"alone0.example: failing since", "alone3.example: failing since").saysNot("more receivers failing", "shop29.example: failing")
	if !strings.Contains(page.body, `href="/ui/receivers?reason=ack_mismatch&amp;route=orders&amp;state=failing"`) {
		t.Error("the problem does not lead to its receivers")
	}

	s.as(ui.Visitor{}).get("/ui/receivers?reason=ack_mismatch&route=orders&state=failing").is(200).says("shop29.example").
		saysNot("alone0.example")
}

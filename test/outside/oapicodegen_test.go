package outside

import (
	"net/http"
	"testing"

	"notifier/test/outside/testdata/oapicodegen"
)

// The client that oapi-codegen makes schedules, reads, changes and lists notices, and reads a problem.
func TestClientOfOapiCodegen(t *testing.T) {
	ctx := t.Context()
	c, err := oapicodegen.NewClientWithResponses(address, oapicodegen.WithRequestEditorFn(authorize))
	if err != nil {
		t.Fatal(err)
	}
	const key = "app1:jobs:oapi:1"
	at := due()
	request := oapicodegen.ScheduleRequest{Key: key, Due: &at, Body: map[string]any{"n": 1.0}}

	created, err := c.ScheduleWithResponse(ctx, request)
	if err != nil || created.JSON201 == nil || !created.JSON201.Due.Equal(at) {
		t.Fatalf("schedule: %v, %s", err, created.Body)
	}
	again, err := c.ScheduleWithResponse(ctx, request)
	if err != nil || again.JSON200 == nil {
		t.Fatalf("the repeated schedule: %v, %s", err, again.Body)
	}
	if kept, err := again.JSON200.AsScheduleAnswer(); err != nil || kept.Created || kept.Id != created.JSON201.Id {
		t.Errorf("the repeated schedule is answered with %+v, %v; want what is kept", kept, err)
	}

	var later oapicodegen.RescheduleRequest_Delay
	if err := later.FromRescheduleRequestDelay0("2h"); err != nil {
		t.Fatal(err)
	}
	moved, err := c.RescheduleWithResponse(ctx, key, oapicodegen.RescheduleRequest{Delay: &later})
	if err != nil || moved.JSON200 == nil || !moved.JSON200.Changed {
		t.Fatalf("reschedule: %v, %s", err, moved.Body)
	}
	read, err := c.GetWithResponse(ctx, key)
	if err != nil || read.JSON200 == nil || !read.JSON200.Due.After(at) || read.JSON200.Attempts == nil {
		t.Errorf("get: %v, %s", err, read.Body)
	}
	prefix := "app1:jobs:oapi"
	page, err := c.ListWithResponse(ctx, &oapicodegen.ListParams{Prefix: &prefix})
	if err != nil || page.JSON200 == nil || len(page.JSON200.Items) != 1 {
		t.Errorf("list: %v, %s", err, page.Body)
	}
	if gone, err := c.CancelWithResponse(ctx, key); err != nil || gone.JSON200 == nil ||
		gone.JSON200.State != oapicodegen.ChangeAnswerStateCancelled {
		t.Errorf("cancel: %v, %s", err, gone.Body)
	}

	batch, err := c.ScheduleBatchWithResponse(ctx, []oapicodegen.ScheduleRequest{{Key: "app1:jobs:oapi:2", Due: &at}, {Key: "no key"}})
	if err != nil || batch.JSON207 == nil || len(*batch.JSON207) != 2 || (*batch.JSON207)[1].Problem == nil {
		t.Errorf("batch: %v, %s", err, batch.Body)
	}
	refused, err := c.ScheduleWithResponse(ctx, oapicodegen.ScheduleRequest{Key: "no key"})
	if err != nil || refused.ApplicationproblemJSON422 == nil || refused.ApplicationproblemJSON422.Status != http.StatusUnprocessableEntity {
		t.Errorf("a refused schedule: %v, %s", err, refused.Body)
	}
	numbers, err := c.StatsWithResponse(ctx)
	if err != nil || numbers.JSON200 == nil || len(numbers.JSON200.Routes) == 0 {
		t.Errorf("stats: %v, %s", err, numbers.Body)
	}
}

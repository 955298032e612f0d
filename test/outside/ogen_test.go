package outside

import (
	"context"
	"testing"

	"notifier/test/outside/testdata/ogen"
)

type source struct{}

func (source) Token(context.Context, ogen.OperationName) (ogen.Token, error) {
	return ogen.Token{Token: token}, nil
}

// The client that ogen makes does the same as that of oapi-codegen. It refuses answers that the document does not describe.
func TestClientOfOgen(t *testing.T) {
	ctx := t.Context()
	c, err := ogen.NewClient(address, source{})
	if err != nil {
		t.Fatal(err)
	}
	const key = "app1:jobs:ogen:1"
	request := &ogen.ScheduleRequest{Key: key, Due: ogen.NewOptDateTime(due()), Body: []byte(`{"n":1}`)}

	created, err := c.Schedule(ctx, request)
	if answer, ok := created.(*ogen.ScheduleAnswer); err != nil || !ok || !answer.Due.Equal(request.Due.Value) {
		t.Fatalf("schedule: %v, %#v", err, created)
	}
	again, err := c.Schedule(ctx, request)
	if kept, ok := again.(*ogen.ScheduleOK); err != nil || !ok || !kept.IsScheduleAnswer() || kept.ScheduleAnswer.Created {
		t.Errorf("the repeated schedule: %v, %#v", err, again)
	}

	later := ogen.NewOptRescheduleRequestDelay(ogen.NewStringRescheduleRequestDelay("2h"))
	moved, err := c.Reschedule(ctx, &ogen.RescheduleRequest{Delay: later}, ogen.RescheduleParams{Key: key})
	if answer, ok := moved.(*ogen.RescheduleAnswer); err != nil || !ok || !answer.Changed {
		t.Errorf("reschedule: %v, %#v", err, moved)
	}
	read, err := c.Get(ctx, ogen.GetParams{Key: key})
	if notice, ok := read.(*ogen.Notice); err != nil || !ok || notice.Key != key || string(notice.Body) != `{"n":1}` {
		t.Errorf("get: %v, %#v", err, read)
	}
	page, err := c.List(ctx, ogen.ListParams{Prefix: ogen.NewOptString("app1:jobs:ogen")})
	if list, ok := page.(*ogen.Page); err != nil || !ok || len(list.Items) != 1 {
		t.Errorf("list: %v, %#v", err, page)
	}
	gone, err := c.Cancel(ctx, ogen.CancelParams{Key: key})
	if answer, ok := gone.(*ogen.ChangeAnswer); err != nil || !ok || answer.State != ogen.ChangeAnswerStateCancelled {
		t.Errorf("cancel: %v, %#v", err, gone)
	}

	absent, err := c.Get(ctx, ogen.GetParams{Key: "app1:jobs:ogen:absent"})
	if problem, ok := absent.(*ogen.GetNotFound); err != nil || !ok || problem.Status != 404 {
		t.Errorf("get of an absent notice: %v, %#v", err, absent)
	}
	batch, err := c.ScheduleBatch(ctx, []ogen.ScheduleRequest{{Key: "app1:jobs:ogen:2", Due: request.Due}, {Key: "no key"}})
	if results, ok := batch.(*ogen.ScheduleBatchMultiStatusApplicationJSON); err != nil || !ok || len(*results) != 2 {
		t.Errorf("batch: %v, %#v", err, batch)
	}
	numbers, err := c.Stats(ctx)
	if stats, ok := numbers.(*ogen.Stats); err != nil || !ok || len(stats.Routes) == 0 {
		t.Errorf("stats: %v, %#v", err, numbers)
	}
}

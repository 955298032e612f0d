package api_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/api"
	"notifier/internal/notice"
)

// Who paused a route, or cancelled a notice, stood nowhere. What changed nothing
// is not told: a refusal, a repetition, a dry run, a producer's schedule.
func TestOperatorsActionsAreLoggedWithTheClientsName(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	b := newBench(t, withClients, func(o *api.Options) { o.Logger = zap.New(core) }).as("token-of-all")
	for _, id := range []string{"a", "b", "c"} {
		b.do("POST", "/v1/notices", `{"key":"app1:jobs:t:`+id+`","delay":"1h"}`).is(201)
	}
	b.do("PATCH", "/v1/notices/app1:jobs:t:a", `{"delay":"2h"}`).is(200)
	b.do("POST", "/v1/notices/app1:jobs:t:a/fire", "").is(200)
	b.as("token-of-one").do("DELETE", "/v1/notices/app1:jobs:t:b", "").is(200)
	b.do("DELETE", "/v1/notices/app1:jobs:t:b", "").is(200) // again
	b.do("POST", "/v1/notices/app1:jobs:t:c/redrive", "").is(409)
	b.engine.Move("app1:jobs:t:c", notice.Dead, notice.ReasonTimeout)
	b.do("POST", "/v1/notices/app1:jobs:t:c/redrive", "").is(200)
	b.engine.Move("app1:jobs:t:c", notice.Dead, notice.ReasonTimeout)
	b.do("POST", "/v1/routes/jobs/redrive?dry_run=true", "").is(200)
	b.do("POST", "/v1/routes/jobs/redrive", "").is(200)
	b.do("POST", "/v1/routes/jobs/pause", "").is(200)
	b.do("POST", "/v1/routes/jobs/resume", "").is(200)
	b.do("POST", "/v1/routes/none/pause", "").is(404)
	var got []string
	for _, l := range logs.FilterMessage("operator action").All() {
		m := l.ContextMap()
		if l.Level != zap.InfoLevel {
			t.Errorf("%v is told at %s", m, l.Level)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%v %v %v%v %v", m["client"], m["action"], text(m["key"]), text(m["route"]),
			text(m["detail"]))))
	}
	want := []string{"all reschedule app1:jobs:t:a it was scheduled", "all fire app1:jobs:t:a it was scheduled",
		"one cancel app1:jobs:t:b it was scheduled", "all redrive app1:jobs:t:c it was dead", "all redrive jobs 1 redriven", "all pause jobs",
		"all resume jobs"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

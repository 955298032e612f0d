//go:build !quick

package api_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"notifier/internal/api"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// The recipes of docs/api.md run in one shell, in their order, and each call succeeds.
func TestRecipesRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, withClients, func(o *api.Options) { o.Tests = testsOf(o, nil, nil) })
	s := httptest.NewServer(b.handler)
	defer s.Close()
	b.as("token-of-one").do("POST", "/v1/notices", `{"key":"app1:jobs:mail:1"}`).is(201)
	b.engine.Hand("app1:jobs:mail:1")
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlock.FindAllStringSubmatch(string(page), -1)
	recipes := strings.Count(string(page), "\n## ") - 1
	if len(blocks) != recipes+1 || recipes != 11 || !strings.HasPrefix(string(page), "# HTTP API in eleven recipes\n") {
		t.Fatalf("%d blocks of commands and %d recipes, want the setup and eleven", len(blocks), recipes)
	}

	script := "set -eu\ncurl() { command curl --fail-with-body \"$@\"; echo; }\n"
	for _, block := range blocks {
		script += block[1]
	}
	c := exec.CommandContext(t.Context(), "sh", "-c", script)
	c.Env = append(os.Environ(), "NOTIFIER_URL="+s.URL, "NOTIFIER_TOKEN=token-of-one")

	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, part := range []string{`"created":true`, `"changed":true`, `"dead"`} {
		if !strings.Contains(string(out), part) {
			t.Errorf("the output has no %s:\n%s", part, out)
		}
	}
}

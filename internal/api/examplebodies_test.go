package api_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/engine/enginetest"
	"notifier/internal/notice"
)

// The document shows one whole body for each call that takes one, and the service accepts it.
func TestDocumentExamplesAreAccepted(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody *struct {
				Content map[string]struct {
					Example json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(api.Document("test"), &doc); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.RequestBody == nil {
				continue
			}
			for contentType, content := range op.RequestBody.Content {
				tried++
				var body bytes.Buffer // on one line, as NDJSON wants it
				if err := json.Compact(&body, content.Example); err != nil {
					t.Errorf("%s %s has no example: %v", method, path, err)
					continue
				}
				c := exampleCall(path, body.String())
				c.header = []string{"Content-Type", contentType}
				t.Run(method+" "+path, func(t *testing.T) {
					if a := c.make(t, strings.ToUpper(method), ""); a.status != 200 && a.status != 201 {
						t.Errorf("the example %s is answered with %d: %.300s", body.Bytes(), a.status, a.raw)
					}
				})
			}
		}
	}
	if tried < 10 {
		t.Errorf("only %d examples were tried", tried)
	}
}

var reportedID = regexp.MustCompile(`"id":"msg_[0-9a-f]+"`)

var sealedText = regexp.MustCompile(`"sealed":"s1c:[^"]+"`)

// exampleCall makes the call of an example on the notice that each bench has. A report names that notice.
func exampleCall(path, body string) call {
	c := call{path: strings.Replace(path, "{key}", "app1:jobs:t:1", 1), body: body}
	if reports := strings.Contains(body, `"attempt":`); reports {
		c.body = reportedID.ReplaceAllString(body, `"id":"ID"`)
		c.prepare = func(e *enginetest.Engine) { e.Hand("app1:jobs:t:1") }
	}
	if strings.HasSuffix(path, "/resend") {
		c.body = reportedID.ReplaceAllString(body, `"id":"ID"`)
		c.prepare = func(e *enginetest.Engine) { e.Move("app1:jobs:t:1", notice.Delivered, "") }
	}
	if path == "/v1/open" {
		c.body = sealedText.ReplaceAllString(body, `"sealed":"SEALED"`)
	}
	return c
}

// Each operation belongs to one group, and the document describes each group once.
func TestDocumentGroupsEachOperation(t *testing.T) {
	t.Parallel()
	var doc struct {
		Servers []struct{ URL string }
		Tags    []struct{ Name, Description string }
		Paths   map[string]map[string]struct{ Tags []string }
	}
	if err := json.Unmarshal(api.Document("test"), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Servers) == 0 || doc.Servers[0].URL != "/" {
		t.Errorf("the servers are %v, want / first", doc.Servers)
	}
	described, used := map[string]bool{}, map[string]bool{}
	for _, group := range doc.Tags {
		described[group.Name] = group.Description != ""
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if len(op.Tags) != 1 || !described[op.Tags[0]] {
				t.Errorf("%s %s has the tags %q, want one that is described", method, path, op.Tags)
				continue
			}
			used[op.Tags[0]] = true
		}
	}
	if len(used) != len(doc.Tags) {
		t.Errorf("the document describes %d groups and uses %d", len(doc.Tags), len(used))
	}
}

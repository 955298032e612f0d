package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every command line in the docs must exist, with its flags.
func TestDocsShowExistingCommands(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/examples/*.md", "../../deploy/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	a := newCommand(Process{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}, Deps{})
	root := a.root()
	root.InitDefaultCompletionCmd()
	shown := regexp.MustCompile("(?m)(?:`|^ *|\\$ |\\| )notifier ([a-z-]+)((?: [^`|#\n]*)?)")
	flag := regexp.MustCompile(`--([a-z][a-z-]*)`)
	n := 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeOf(string(raw)) {
			for _, m := range shown.FindAllStringSubmatch(code, -1) {
				words := append([]string{m[1]}, strings.Fields(m[2])...) // the second may be a command of the first
				c, _, err := root.Find(words[:min(2, len(words))])
				if err != nil {
					t.Errorf("%s shows `notifier %s`, which is no command", filepath.Base(page), m[1])
					continue
				}
				n++
				for _, f := range flag.FindAllStringSubmatch(m[2], -1) {
					if c.Flags().Lookup(f[1]) == nil && root.PersistentFlags().Lookup(f[1]) == nil && f[1] != "help" {
						t.Errorf("%s shows `notifier %s --%s`, which is no flag of it", filepath.Base(page), m[1], f[1])
					}
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d command lines were found in %d pages: the pattern fits no more", n, len(pages))
	}
}

// Regression test: the runbook stopped a host by pausing a whole route.
func TestRunbookStopsOneHost(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, answer, found := strings.Cut(string(raw), `**"Stop everything to host X, now."**`)
	if !found {
		t.Fatal("the runbook does not say how to stop a host")
	}
	answer, _, _ = strings.Cut(answer, "\n\n")
	var commands []string
	for _, span := range codeOf(answer) {
		if fields := strings.Fields(strings.Trim(span, "`")); len(fields) > 1 && fields[0] == "notifier" {
			commands = append(commands, strings.Join(fields[1:min(3, len(fields))], " "))
		}
	}
	if len(commands) < 2 || commands[0] != "pause --host" || commands[1] != "resume --host" {
		t.Errorf("the runbook stops a host by %q", commands)
	}
}

// codeOf returns the code of a page: fenced blocks and spans.
func codeOf(page string) []string {
	var out []string
	for i, part := range strings.Split(page, "```") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, regexp.MustCompile("`[^`\n]+`").FindAllString(part, -1)...)
	}
	return out
}

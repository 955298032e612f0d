package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const pass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0.5}
`
	for _, c := range []struct {
		name, in string
		code     int
		want     []string
		not      string
	}{
		{"pass", pass, 0, []string{"1 passed, 0 failed, 0 skipped", "ok   p 0.5s"}, "quiet"},
		{"fail", pass + `{"Action":"output","Package":"q","Test":"TestB","Output":"b_test.go:1: wrong\n"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q","Elapsed":1}`, 1, []string{"1 passed, 1 failed", "b_test.go:1: wrong", "FAIL q"}, ""},
		{"skip", pass + `{"Action":"output","Package":"q","Test":"TestB","Output":"needs x\n"}
{"Action":"skip","Package":"q","Test":"TestB"}`, 0, []string{"1 skipped", "needs x"}, ""},
		{"build", pass + `{"ImportPath":"q [q.test]","Action":"build-output","Output":"q.go:1: undefined\n"}
{"ImportPath":"q [q.test]","Action":"build-fail"}
{"Action":"fail","Package":"q","Elapsed":0}`, 1, []string{"q.go:1: undefined", "1 of them failed"}, ""},
		{"panic amid a test", pass + `{"Action":"output","Package":"q","Test":"TestC","Output":"panic: x\n"}
{"Action":"fail","Package":"q","Elapsed":0}`, 1, []string{"panic: x"}, ""},
		{"nothing", "", 1, []string{"0 passed"}, ""},
		{"the go command itself", "go: no such module\n", 1, []string{"go: no such module"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if code := run(strings.NewReader(c.in), &out); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, w := range c.want {
				if !strings.Contains(out.String(), w) {
					t.Errorf("no %q in:\n%s", w, out.String())
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("%q in:\n%s", c.not, out.String())
			}
		})
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
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
			if code := run(strings.NewReader(c.in), &out, 0, nil); code != c.code {
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

func TestFailedTestsRunOnceMore(t *testing.T) {
	const (
		pass = `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`
		fail = `{"Action":"fail","Package":"q","Test":"TestB/case"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q"}
`
		output = `{"Action":"output","Package":"q","Test":"TestB","Output":"%\n"}
`
	)
	for _, c := range []struct {
		name, in string
		most     int
		passes   bool
		code     int
		ran      string
	}{
		{"passes without the others", pass + fail, 1, true, 0, "q TestB"},
		{"fails again", pass + fail, 1, false, 1, "q TestB"},
		{"none may", pass + fail, 0, true, 1, ""},
		{"more than may", pass + `{"Action":"fail","Package":"q","Test":"TestC"}
` + fail, 1, true, 1, ""},
		{"two of one package", pass + `{"Action":"fail","Package":"q","Test":"TestC"}
` + fail, 2, true, 0, "q TestC TestB"},
		{"a race", pass + strings.Replace(output, "%", "WARNING: DATA RACE", 1) + fail, 1, true, 1, ""},
		{"a panic", pass + strings.Replace(output, "%", "panic: x", 1) + fail, 1, true, 1, ""},
		{"a package that fails without a test", pass + `{"Action":"fail","Package":"r"}
` + fail, 1, true, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			ran := ""
			code := run(strings.NewReader(c.in), &out, c.most, func(pkg string, tests []string) bool {
				ran = pkg + " " + strings.Join(tests, " ")
				return c.passes
			})
			if code != c.code || ran != c.ran {
				t.Errorf("exit %d, ran %q; want %d, %q:\n%s", code, ran, c.code, c.ran, out.String())
			}
			if told := strings.Contains(out.String(), "passed without them"); told != (c.code == 0) {
				t.Errorf("told %t:\n%s", told, out.String())
			}
		})
	}
}

// A target of make pipes the tests into this command, and bash is told to fail
// with the first failure of a pipe: that must not undo what the second run said.
func TestMakeTestPassesWhenTheSecondRunDoes(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	// A result of this test stays in the cache until a file that it opened changes.
	if _, err := os.ReadFile(filepath.Join(root, "Makefile")); err != nil {
		t.Fatal(err)
	}
	const fails = `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q"}`
	for _, c := range []struct {
		name          string
		first, second int // exit codes of the go command
		ok            bool
	}{
		{"passes once more", 1, 0, true},
		{"fails once more", 1, 1, false},
		{"a flag that go does not know", 2, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			// What make takes for the go command: its first run of tests prints
			// the events above, and testcount is the real one.
			script := `#!/bin/bash
case "$*" in
run*) exec go "$@" ;;
*-json*) cat <<'END'
` + fails + `
END
exit ` + string(rune('0'+c.first)) + ` ;;
*-run*) exit ` + string(rune('0'+c.second)) + ` ;;
esac
`
			tool := filepath.Join(t.TempDir(), "go")
			if err := os.WriteFile(tool, []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			// -o: what the tests need is installed, since this is one of them.
			cmd := exec.Command("make", "-C", root, "-o", "deps", "test", "GO="+tool, "RERUN=3")
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok {
				t.Errorf("%v:\n%s", err, out)
			}
			if !strings.Contains(string(out), "1 passed, 1 failed") {
				t.Errorf("testcount did not read the events:\n%s", out)
			}
		})
	}
}

package meta

import (
	"go/scanner"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// A line of at most 140 characters fits a screen, also beside another.
func TestLinesAreShort(t *testing.T) {
	const longest = 140
	for _, rel := range append(files(t, ".go"), files(t, ".lua")...) {
		text := read(t, rel)
		if generated(text) || strings.HasPrefix(rel, "deploy/") { // deploy/schedule.lua is generated
			continue
		}
		var cannot map[int]bool
		if strings.HasSuffix(rel, ".go") {
			cannot = unbreakable(text)
		}
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > longest && !cannot[i+1] {
				t.Errorf("%s:%d has %d characters, want at most %d", rel, i+1, n, longest)
			}
		}
	}
}

// unbreakable are the lines with a raw string, with a text that has no space to break it
// at, or whose comment gives the reason of a sleep.
func unbreakable(text string) map[int]bool {
	const word = 60
	lines := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return lines
		}
		raw := kind == token.STRING && literal[0] == '`'
		whole := kind == token.STRING && len(literal) > word && !strings.Contains(literal, " ")
		if sleep := kind == token.COMMENT && strings.HasPrefix(literal, "// sleep:"); raw || whole || sleep {
			first := set.Position(pos).Line
			for n := range strings.Count(literal, "\n") + 1 {
				lines[first+n] = true
			}
		}
	}
}

// A version's changes can be read at a glance.
func TestChangelogIsShort(t *testing.T) {
	const most = 60
	for _, version := range strings.Split(read(t, "CHANGELOG.md"), "\n## ")[1:] {
		if n := strings.Count(strings.TrimSpace(version), "\n") + 1; n > most {
			name, _, _ := strings.Cut(version, "\n")
			t.Errorf("%s has %d lines, want at most %d", name, n, most)
		}
	}
}

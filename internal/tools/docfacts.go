package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// docfacts lists facts that the Markdown pages of an earlier Git revision have and the pages of the working tree lack.
// It helps to shorten the documentation without losing a fact.
//
// A fact is a text in backticks, a number with a unit, or the anchor of a heading. A fact counts as kept if any page or
// .txt file of the working tree has it.
func docfacts(revision string, w io.Writer) error {
	ctx := context.Background()
	before, err := pagesOf(ctx, revision)
	if err != nil {
		return err
	}

	after, err := pages(".")
	if err != nil {
		return err
	}

	kept := map[string]bool{}
	for _, text := range after {
		for _, f := range facts(text) {
			kept[f] = true
		}
	}

	missing := 0
	for _, page := range slices.Sorted(maps.Keys(before)) {
		for _, f := range facts(before[page]) {
			if !kept[f] {
				fmt.Fprintf(w, "%s: %s\n", page, f)
				missing++
			}
		}
	}

	_, err = fmt.Fprintf(w, "%d facts of %s are missing\n", missing, revision)
	return err
}

// pages are the Markdown files under a folder, and the records, which are .txt.
func pages(root string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".txt"}, filepath.Ext(path)) {
			return err
		}

		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	return all, err
}

// pagesOf are the Markdown files of a revision.
func pagesOf(ctx context.Context, revision string) (map[string]string, error) {
	names, err := git(ctx, "ls-tree", "-r", "--name-only", revision)
	if err != nil {
		return nil, err
	}

	all := map[string]string{}
	for _, name := range strings.Fields(names) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		if all[name], err = git(ctx, "show", revision+":"+name); err != nil {
			return nil, err
		}
	}

	return all, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}

	return string(out), nil
}

var (
	quoted  = regexp.MustCompile("`[^`\n]+`")
	number  = regexp.MustCompile(`[\d.,]*\d ?(?:ms|µs|s|min|h|%|×|KiB|MiB|GiB|kB|MB|GB|B|bytes|/s)(?:[^\w]|$)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	spaces  = regexp.MustCompile(`\s+`)
	punct   = regexp.MustCompile(`[^\w\- ]`)
)

// facts are those of a page, in its order, each once.
func facts(text string) (list []string) {
	seen := map[string]bool{}
	add := func(f string) {
		if !seen[f] {
			seen[f] = true
			list = append(list, f)
		}
	}
	for _, f := range quoted.FindAllString(text, -1) {
		add(f)
	}

	for _, f := range number.FindAllString(text, -1) {
		add(strings.Trim(spaces.ReplaceAllString(f, " "), " ,.;:()|"))
	}

	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		add("#" + strings.ReplaceAll(punct.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}

	return list
}

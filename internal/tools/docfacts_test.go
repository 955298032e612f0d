package main

import (
	"slices"
	"testing"
)

func TestFactsOfAPage(t *testing.T) {
	t.Parallel()
	got := facts("## At 3 a.m.\n\nSet `NOTIFIER_GRACE` to 50 ms, not 1,000 ms.\nAgain `NOTIFIER_GRACE`; 16 MiB (0.5 %).\n")
	want := []string{"`NOTIFIER_GRACE`", "50 ms", "1,000 ms", "16 MiB", "0.5 %", "#at-3-am"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

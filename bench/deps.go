//go:build deps

package main

// The service's own dependencies, so that go.sum is complete whichever of its
// packages come to be imported here.
import (
	_ "notifier/internal/cli"
	_ "notifier/internal/deps"
)

// Package adapter holds the systems that are measured, one a file, and the
// patterns that people build by hand. Each runs at the best settings that were
// found for it; Info.Settings states them.
package adapter

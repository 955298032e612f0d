// Package alerts checks the rules in deploy/prometheus with promtool: their syntax, their unit tests, and alerts that running
// instances provoke.
//
// The package is a separate module, because promtool has many dependencies.
package alerts

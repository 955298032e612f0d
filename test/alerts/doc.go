// Package alerts checks deploy/prometheus/alerts.yaml with promtool: its syntax, its unit tests, and alerts that
// running instances provoke.
//
// The package is a separate module, because promtool has many dependencies.
package alerts

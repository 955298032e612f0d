// Package alerts checks deploy/prometheus/alerts.yaml with promtool: its syntax, its unit
// tests, and alerts that running instances provoke. It is a separate module, because
// promtool has many dependencies.
package alerts

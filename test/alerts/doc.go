// Package alerts checks deploy/prometheus/alerts.yaml with promtool: its syntax, its unit
// tests, and alerts that running instances provoke. It is a module of its own, because
// promtool has many dependencies.
package alerts

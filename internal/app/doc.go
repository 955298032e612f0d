// Package app is the process of `notifier serve`. A [Process] is made from a configuration. It
// consists of an [engine.Engine], the HTTP API, the pages, the address of the metrics, the log, and
// a regular check of the Redis configuration. It starts and stops these parts in order.
package app

// Package app runs the process of the command `notifier serve`. It creates a [Process] from a configuration. The
// Process starts and stops an [engine.Engine], which delivers notices, and the parts around it: the HTTP API, the
// dashboard, the metrics, the traces, and a periodic check of the Redis configuration.
package app

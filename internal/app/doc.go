// Package app runs the process of `notifier serve`. From a configuration it makes a [Process]. That starts and stops
// an [engine.Engine], the HTTP API, the dashboard, the metrics, the log, and a periodic check of the Redis
// configuration.
package app

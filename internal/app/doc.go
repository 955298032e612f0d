// Package app is the process: an [engine.Engine] with its HTTP API and its
// pages, made from a configuration, its log, the watch over how Redis is set up,
// and the address of the metrics. A [Process] starts them in order and stops them in order.
package app

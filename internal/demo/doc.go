// Package demo shows the service at work on a machine that has nothing but this
// program: a Redis of its own, a receiver that fails at first, and a ladder
// whose hours are parts of a second. Kept, it runs with traffic and its pages until it
// is interrupted.
package demo

// Package server starts the servers that the measured systems need: each on a
// free port of the loopback interface, in a directory of its own, without
// persistence, and stopped by process id.
package server

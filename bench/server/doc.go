// Package server starts the servers that the measured systems need. Each server runs on a free port of the loopback
// interface, in a separate directory, and without persistence.
package server

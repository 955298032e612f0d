// Package demo runs the service with everything it needs, to show it on a machine without any other software.
//
// It starts a separate Redis, a receiver that fails at first, and the service, and prints each attempt. The delays
// between attempts are fractions of a second. [Run] ends after about three seconds. [Keep] adds traffic and the
// dashboard, and runs until it is interrupted.
package demo

// Package timetravel tests the whole engine in virtual time: the parts of
// package engine, a Redis client, connections and the emulation of Redis are in
// one bubble of testing/synctest, whose clock moves on when all of them wait. A
// day takes seconds, and what is measured is exact to the nanosecond.
//
// Connections are pipes within the process, since a bubble's time never moves
// while a goroutine waits for a socket; they can be cut, held and refused. The
// wall clock of Redis leaps by Emulation.Leap; that of the engine is the
// bubble's and cannot, and is of no account: scripts ask Redis for the time.
//
// A ladder-day is one notice that goes through one day of its ladder. `make test`
// runs 2,000 of them, `make fault` 100,000, with faults that a seed decides.
package timetravel

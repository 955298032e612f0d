// Package timetravel tests the whole engine in virtual time. The parts of package engine, a Redis
// client, connections and an emulation of Redis run in one bubble of testing/synctest, whose clock
// advances when all of them wait. A day takes seconds, and measurements are exact to the
// nanosecond.
//
// Connections are pipes within the process, because a bubble's time does not advance while a
// goroutine waits for a socket. Tests can cut, hold and refuse connections. Emulation.Leap moves
// the wall clock of Redis. The engine's clock is the bubble's and cannot be moved. That suffices,
// because scripts take the time from Redis.
//
// A ladder-day is one day of one notice's ladder. `make test` runs 2,000 ladder-days and `make
// fault` 100,000, with faults that a seed selects.
package timetravel

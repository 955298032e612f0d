// Package timetravel tests the whole engine in virtual time, so that a day takes seconds and measurements are exact.
// The engine, a Redis client and an emulation of Redis run in one bubble of testing/synctest. The clock of a bubble
// advances when all its goroutines wait.
//
// Connections are pipes within the process, because a bubble's time does not advance while a goroutine waits for a
// socket. Tests can cut, hold and refuse connections. They can move the clock of Redis (Emulation.Leap), from which
// the scripts take the time.
//
// A ladder is the list of delays between the attempts of a notice. A ladder-day is one day in the ladder of one
// notice. `make test` runs 2,000 ladder-days, and `make fault` runs 100,000, with faults that a seed selects.
package timetravel

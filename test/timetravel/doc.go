// Package timetravel tests the whole engine in virtual time, so that a day takes seconds and measurements are exact.
// The engine is everything that schedules, claims and delivers notices. The engine, a Redis client and an emulation of
// Redis run in one bubble of testing/synctest. The clock of a bubble advances when all its goroutines wait.
//
// Connections are pipes within the process, because a bubble's time does not advance while a goroutine waits for a
// socket. Tests can cut, hold and refuse connections. They can also move the clock of Redis (Emulation.Leap), which
// decides when notices are due.
//
// A ladder is the list of delays between the attempts of a notice. A ladder-day is one day in the ladder of one notice.
// `make test` simulates 200 ladder-days, `make check` 2,000 and `make fault` 100,000, with faults that a seed selects.
package timetravel

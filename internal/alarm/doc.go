// Package alarm waits for a point in time, on Linux with a precision of about 50 µs.
//
// Go's timers have a precision of only a millisecond. So on Linux an [Alarm] made by [New] uses a timerfd, a timer of
// the kernel, and its receiver is awake before the time. On other systems it uses a time.Timer, as [NewTimer] and
// [Wait] do on all systems.
package alarm

// Package alarm waits for a point in time with a precision of about 50 µs.
//
// On Linux an [Alarm] uses a timerfd, because Go's timers have a precision of a millisecond. On other systems it is a
// time.Timer. [Wait] always uses a time.Timer.
package alarm

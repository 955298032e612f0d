// Package alarm waits for an instant with high precision.
//
// The Go runtime waits for timers with epoll, which rounds up to whole milliseconds. On Linux an
// [Alarm] is a timerfd, which wakes within some 50 µs; on other systems it is a time.Timer. [Wait]
// uses a time.Timer, for callers that tolerate a millisecond.
package alarm

// Package alarm waits for a point in time with a precision of about 50 µs.
//
// The Go runtime waits for timers with epoll, which rounds up to whole milliseconds. So on Linux an [Alarm] uses a
// timerfd. On other systems it is a time.Timer. [Wait] always uses a time.Timer, for callers that tolerate a
// millisecond.
package alarm

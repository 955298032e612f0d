// Package alarm waits for an instant. The runtime's timers are rounded up to a
// whole millisecond by epoll; on Linux an Alarm is a timerfd, which wakes
// within some 50 µs. Elsewhere it is a time.Timer. Wait is for waits that may be a
// millisecond late.
package alarm

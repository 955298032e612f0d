//go:build !linux

package pace

// New returns the most precise Alarm of this system: a time.Timer.
func NewAlarm() Alarm { return NewTimer() }

//go:build !linux

package alarm

// New returns the most precise Alarm of this system: a time.Timer.
func New() Alarm { return NewTimer() }

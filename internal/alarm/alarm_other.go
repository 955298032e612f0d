//go:build !linux

package alarm

// New is the most precise Alarm of this system.
func New() Alarm { return NewTimer() }

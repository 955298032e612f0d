package ui

// timeInput is a field for a time.
type timeInput struct {
	Label                text
	Name, Value, Example string
	Required             bool
	Future               bool // times after now are of use, too
}

// description is the text of a screen reader about the format of a time.
func (f timeInput) description() text {
	if f.Future {
		return say("A time such as 14:00, yesterday, 2026-11-22 09:30, now, -1h or +15m")
	}
	return say("A time such as 14:00, yesterday, 2026-11-22 09:30, now or -1h")
}

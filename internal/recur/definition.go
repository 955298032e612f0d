package recur

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Missed is what happens to ticks that passed while no occurrence could be stored: no instance was running, or the definition or
// its route was paused.
type Missed string

// The policies for missed ticks. A tick that is at most a minute old is never missed.
const (
	MissedSkip   Missed = "skip"   // no occurrence
	MissedLatest Missed = "latest" // an occurrence for the last of them; the default
	MissedAll    Missed = "all"    // an occurrence for each of the last ones, up to the definition's MissedMost
)

// Overlap is what happens at a tick while an earlier occurrence is pending or in flight.
type Overlap string

// The policies for overlaps. The default is OverlapWait on a route with ORDER=id, which delivers occurrences one after the other,
// and OverlapAllow on others.
const (
	OverlapAllow Overlap = "allow" // another occurrence, which is delivered at the same time
	OverlapSkip  Overlap = "skip"  // no occurrence
	OverlapWait  Overlap = "wait"  // another occurrence, which is delivered when the earlier one is finalized
)

// The limits of a definition.
const (
	MaxName    = keys.MaxID - 1 - MaxDigits // of a definition's name, the last segment of its key
	MaxDigits  = 9                          // of the number of an occurrence
	MaxNumber  = 999_999_999
	MaxMissed  = 1000
	mostMissed = 10 // the default of MissedMost
)

// Definition defines a recurring notice.
type Definition struct {
	// Key is app:module:type:name. The name has at most MaxName characters and does not end in ~ and digits.
	Key  string
	Spec Spec
	// From and Until bound the ticks, both inclusive; zero = no bound. Times is the maximum number of occurrences for ticks; 0 = no
	// bound.
	From, Until time.Time
	Times       int
	// Missed is the policy for missed ticks; empty = MissedLatest. MissedMost is the maximum of MissedAll; 0 = 10.
	Missed     Missed
	MissedMost int
	Overlap    Overlap // empty = the default of the route
	Paused     bool
	// Content is that of the occurrences. Its ExpiresAfter counts from the tick, and it has no Expires.
	Content notice.Content
	// Client is the number of the client that stored the definition; 0 = not recorded.
	Client int
	// MinNumber is a number that the last occurrence has had elsewhere: numbers go on after it. It is not a part of the stored definition.
	MinNumber int
	// MinTick is the tick of that occurrence there. If it is to come, the occurrence for it here has the same number, unless there is one
	// with this number already: so one that is restored too exists once. It is not stored either.
	MinTick time.Time
}

// Fault is a mistake in a definition. Field is the name of the API's field, and Err wraps notice.ErrInvalid.
type Fault struct {
	Field string
	Err   error
}

// Error returns the fault with the name of its field.
func (f Fault) Error() string {
	text := strings.TrimPrefix(f.Err.Error(), notice.ErrInvalid.Error()+": ")
	if f.Field == "" {
		return notice.ErrInvalid.Error() + ": " + text
	}

	return notice.ErrInvalid.Error() + ": " + f.Field + " " + text
}

// Unwrap returns the error.
func (f Fault) Unwrap() error { return f.Err }

// Check returns all faults of a definition. It does not know the routes.
func (d *Definition) Check() []Fault {
	var faults []Fault
	add := func(field string, err error) {
		if err != nil {
			faults = append(faults, Fault{field, err})
		}
	}

	add("key", CheckKey(d.Key))
	if _, err := Parse(d.Spec); err != nil {
		add(specFault(err))
	}

	if !d.Until.IsZero() && !d.Until.After(d.From) {
		add("until", invalid("is not after from"))
	}

	if d.Times < 0 || d.Times > MaxNumber {
		add("times", invalid("%d is not from 1 to %d; leave it out for no bound", d.Times, MaxNumber))
	}

	if d.MinNumber < 0 || d.MinNumber > MaxNumber {
		add("number", invalid("%d is not from 1 to %d; leave it out to begin at 1", d.MinNumber, MaxNumber))
	}

	if !d.MinTick.IsZero() && d.MinNumber == 0 {
		add("last_tick", invalid("needs number"))
	}

	if !slices.Contains([]Missed{"", MissedSkip, MissedLatest, MissedAll}, d.Missed) {
		add("missed", invalid("%.80q; want skip, latest or all", string(d.Missed)))
	}

	add("missed_most", d.checkMissedMost())
	if !slices.Contains([]Overlap{"", OverlapAllow, OverlapSkip, OverlapWait}, d.Overlap) {
		add("overlap", invalid("%.80q; want allow, skip or wait", string(d.Overlap)))
	}

	if !d.Content.Expires.IsZero() {
		add("expires", invalid("is a time; want a duration such as 1h, which counts from each tick, or set until"))
	}

	content := d.Content
	content.Expires = time.Time{}
	add("", content.Check())
	d.Content.URL = content.URL // in its canonical form
	return faults
}

func (d *Definition) checkMissedMost() error {
	switch {
	case d.MissedMost != 0 && d.Missed != MissedAll:
		return invalid("is only for missed=all; leave it out")
	case d.MissedMost < 0 || d.MissedMost > MaxMissed:
		return invalid("%d is not from 1 to %d", d.MissedMost, MaxMissed)
	}

	return nil
}

// specFault returns the API's field that an error of Parse begins with, and the error without it.
func specFault(err error) (field string, rest error) {
	text := strings.TrimPrefix(err.Error(), notice.ErrInvalid.Error()+": ")
	field, text, _ = strings.Cut(text, " ")
	return field, invalid("%s", text)
}

// CheckKey returns an error that wraps notice.ErrInvalid if a key cannot be that of a definition.
func CheckKey(key string) error {
	k, err := keys.Parse(key)
	switch {
	case err != nil:
		return invalid("%v; want app:module:type:name", err)
	case len(k.ID) > MaxName:
		return invalid("the name has %d characters, at most %d are allowed", len(k.ID), MaxName)
	case numbered(k.ID):
		return invalid("the name %.128q ends in ~ and digits, as the keys of occurrences do", k.ID)
	}

	return nil
}

// numbered reports whether an id ends in ~ and digits.
func numbered(id string) bool {
	start := strings.TrimRight(id, "0123456789")
	return len(start) < len(id) && strings.HasSuffix(start, "~")
}

// OccurrenceKey returns the key of the occurrence with a number.
func OccurrenceKey(key string, number int) string { return key + "~" + strconv.Itoa(number) }

// ParseOccurrence returns the definition's key and the number in the key of an occurrence. ok is false for other keys.
func ParseOccurrence(key string) (definition string, number int, ok bool) {
	at := strings.LastIndexByte(key, '~')
	if at < 0 || len(key)-at-1 > MaxDigits {
		return "", 0, false
	}

	digits := key[at+1:]
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 || strconv.Itoa(number) != digits {
		return "", 0, false
	}

	return key[:at], number, CheckKey(key[:at]) == nil
}

// Upcoming returns the next n ticks of a definition after a time, without regard to its state.
func (d *Definition) Upcoming(after time.Time, n int) ([]time.Time, error) {
	s, err := d.ticks()
	if err != nil {
		return nil, err
	}

	var list []time.Time
	for len(list) < n && (d.Times == 0 || len(list) < d.Times) {
		if after = s.next(after); after.IsZero() {
			break
		}

		list = append(list, after)
	}

	return list, nil
}

package route

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Action is the consequence of an answer that does not acknowledge.
type Action string

// The actions.
const (
	ActionDead  Action = "dead"  // the notice ends
	ActionPause Action = "pause" // the receiver is paused after several such answers in a row
)

// OnStatus has the actions by the status of the answer.
type OnStatus map[int]Action

// ParseOnStatus parses 401:pause,404:dead,422:dead.
func ParseOnStatus(s string) (OnStatus, error) {
	const want = "want statuses from 300 to 599 with dead or pause, such as 401:pause,404:dead"
	rules := OnStatus{}
	for entry := range strings.SplitSeq(s, ",") {
		status, action, ok := strings.Cut(strings.TrimSpace(entry), ":")
		code, err := strconv.Atoi(status)
		switch _, again := rules[code]; {
		case !ok || err != nil:
			return nil, fmt.Errorf("%.40q is not status:action; %s", entry, want)
		case code >= 200 && code <= 299:
			return nil, fmt.Errorf("%d is a success, which ACK accepts or not; %s", code, want)
		case code < 300 || code > 599:
			return nil, fmt.Errorf("%d is not a status; %s", code, want)
		case Action(action) != ActionDead && Action(action) != ActionPause:
			return nil, fmt.Errorf("%.40q is not an action; %s", action, want)
		case again:
			return nil, fmt.Errorf("%d is given twice; want each status once", code)
		}

		rules[code] = Action(action)
	}

	return rules, nil
}

// Pauses reports whether an answer can pause its receiver.
func (o OnStatus) Pauses() bool {
	for _, action := range o {
		if action == ActionPause {
			return true
		}
	}

	return false
}

// String returns the form that ParseOnStatus parses, sorted by status.
func (o OnStatus) String() string {
	var list []string
	for _, code := range slices.Sorted(maps.Keys(o)) {
		list = append(list, fmt.Sprintf("%d:%s", code, o[code]))
	}

	return strings.Join(list, ",")
}

package problems

import "time"

// A change of a route's settings explains failures that began within explainedFor after it, if they are at least explainedShare of
// the problem's.
const (
	explainedFor   = 24 * time.Hour
	explainedShare = 0.75
)

// compare says of failing receivers of a route that they began to fail after the settings of the route were changed.
func (f *finder) compare(p *Problem, list []*receiver) {
	change, ok := f.b.Changed[p.Route]
	if !ok {
		return
	}

	after := 0
	for _, r := range list {
		if !r.Since.Before(change.At) && r.Since.Sub(change.At) < explainedFor {
			after++
		}
	}

	if float64(after) < explainedShare*float64(len(list)) {
		return
	}

	p.Changed, p.Settings = change.At, change.Settings
	p.Facts = append(p.Facts, say("since the settings of route %s changed at %s", p.Route, f.moment(change.At)))
	if len(change.Settings) > 0 {
		p.Facts = append(p.Facts, say("changed: %s", change.Settings))
	}

	if f.Reader.Everything() { // others may not read entries of instances
		p.Links = append(p.Links, Link{Path: changesPath(p.Prefix), Text: say("Compare"), Compares: true})
	}
}

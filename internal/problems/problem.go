package problems

import (
	"slices"
	"strings"
	"time"

	"notifier/internal/notice"
)

// Kind is a kind of problem.
type Kind string

// The kinds of problems.
const (
	RedisFull          Kind = "redis_full"
	NotReady           Kind = "not_ready"
	Lost               Kind = "lost"     // notices are lost or not delivered
	Degraded           Kind = "degraded" // another limitation of this instance
	UnresponsiveMember Kind = "unresponsive_instance"
	Setup              Kind = "setup" // a finding of doctor
	Dead               Kind = "dead"
	Unrouted           Kind = "unrouted"
	Unhandled          Kind = "unhandled" // no worker handles a recorded prefix
	Disabled           Kind = "disabled"  // a route has a recorded prefix
	RoutePaused        Kind = "route_paused"
	Overdue            Kind = "overdue"
	Resources          Kind = "resources" // notices wait for resources of a machine
	AttemptsFail       Kind = "attempts_fail"
	Failing            Kind = "receivers_failing"
	NoAnswer           Kind = "no_answer" // a breaker is open
	Paused             Kind = "receivers_paused"
	Unknown            Kind = "unknown" // a part of the figures could not be read
)

// Kinds are all kinds.
var Kinds = []Kind{RedisFull, NotReady, Lost, Degraded, UnresponsiveMember, Setup, Dead, Unrouted, Unhandled, Disabled, RoutePaused,
	Overdue, Resources, AttemptsFail, Failing, NoAnswer, Paused, Unknown}

// Severity says how bad a problem is.
type Severity string

// The severities.
const (
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Severities are all severities.
var Severities = []Severity{Warning, Error}

// Problem is one problem, or several with the same cause.
type Problem struct {
	Kind     Kind
	Severity Severity
	// Route is the name of a route, or a prefix without one. Both are empty if the problem is not of one route.
	Route, Prefix string
	notice.Cause
	Count int64 // of notices, receivers or instances, according to the kind; 0 = not counted
	Hosts int   // of receivers with the problem, where that is known
	// Since is when it began, and Last when it was last seen; zero if that is unknown.
	Since, Last time.Time
	Examples    []string // receivers or instances
	// Changed is when the settings of the route were changed, if the problem began after it. Settings are their names.
	Changed  time.Time
	Settings []string

	// Title and Why are sentences, Quoted is a text of doctor or of an instance, and Facts are short.
	Title, Why Text
	Quoted     string
	Facts      []Text

	// Command is a command that shows or ends the problem. Links are pages of the dashboard, the most useful one first.
	Command string
	Links   []Link
	Resume  bool // the route can be resumed
}

// Link is a page of the dashboard.
type Link struct {
	Path string
	Text Text
	// Compares means that the page shows the change of the settings after which the problem began.
	Compares bool
}

// Details returns all but the title in English; empty if there is nothing more to say.
func (p *Problem) Details() string {
	var parts []string
	for _, s := range []string{p.Why.String(), p.Quoted} {
		if s != "" {
			parts = append(parts, s)
		}
	}

	var facts []string
	for _, f := range p.Facts {
		facts = append(facts, f.String())
	}

	if len(facts) > 0 {
		parts = append(parts, strings.Join(facts, " · "))
	}

	return strings.Join(parts, " ")
}

// worstFirst sorts problems by severity, and keeps the order of those with the same one.
func worstFirst(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return slices.Index(Severities, b.Severity) - slices.Index(Severities, a.Severity)
	})
}

package fleet

import "time"

// Intervals and counts of missed heartbeats.
const (
	maxInterval        = time.Second
	missedUnresponsive = 3 // after so many missed heartbeats an instance is unresponsive
	missedBreak        = 2 // a gap of so many intervals between two own heartbeats ends the trust window
)

// intervalOf returns the interval of heartbeats of an instance with that TAKEOVER.
func intervalOf(takeover time.Duration) time.Duration {
	if takeover <= 0 {
		return maxInterval
	}

	return min(maxInterval, takeover/missedUnresponsive)
}

// member is the state of another instance. Times are of Redis's clock, in ms.
type member struct {
	heartbeat LastHeartbeat
	// seen is when the heartbeat was read first. A heartbeat with a later time counts from seen.
	seen         int64
	unresponsive bool
	// takeover is the member's own, in ms; 0 = never, or not known yet.
	takeover  int64
	interval  int64
	described bool
	tries     int // to read its description
	label     string
	routes    map[string]string // digests by route name; nil = not known
	prefixes  map[string]string // by route name; nil = not known
	sealKeys  []string
}

// lacks reports whether the member has no route with a prefix.
func (m *member) lacks(prefix string) bool {
	if !m.described || m.prefixes == nil || prefix == "" {
		return false
	}

	for _, p := range m.prefixes {
		if p == prefix {
			return false
		}
	}

	return true
}

func (m *member) at() int64 { return min(m.heartbeat.At, m.seen) }

// detector finds unresponsive and dead instances in the rosters. It has no clock: all times come
// from the rosters.
type detector struct {
	// takeover is the TAKEOVER of the instance in ms. It is 0 if it has none, or is not known yet.
	takeover     int64 // 0 = no instance is declared dead
	interval     int64
	last         int64 // time of the last roster; 0 = none, or a heartbeat failed since
	reached      int64 // since when no heartbeat failed
	window       int64 // start of the trust window; 0 = none
	subscription uint64
	members      map[string]*member
}

func newDetector(takeover time.Duration) *detector {
	return &detector{takeover: takeover.Milliseconds(), interval: intervalOf(takeover).Milliseconds(), members: map[string]*member{}}
}

// failed records that a heartbeat failed or was not answered.
func (j *detector) failed() { j.last = 0 }

// findings are the conclusions from one roster.
type findings struct {
	dead []LastHeartbeat // to be declared dead
	left []string        // members that are no longer listed
	// next is the time until an instance may be declared dead. 0 means none for now.
	next time.Duration
}

// read evaluates a roster. own is the id of the observer. subscription is the number of its
// subscription when its heartbeat was sent, or 0 if there was none.
func (j *detector) read(own string, subscription uint64, r Roster) findings {
	j.updateWindow(subscription, r)
	listed := j.updateMembers(own, r)
	ended := make(map[string]bool, len(r.Departures))
	for _, d := range r.Departures {
		ended[d.ID] = true
	}

	var v findings
	for id, m := range j.members {
		since := r.Now - max(m.at(), j.reached)
		m.unresponsive = m.unresponsive || since >= missedUnresponsive*max(m.interval, j.interval)
		// A heartbeat that is missing without a mark was lost with Redis's data. Its instance, if
		// alive, publishes another one.
		if !listed[id] && (ended[id] || m.unresponsive) {
			v.left = append(v.left, id)
			delete(j.members, id)
			continue
		}

		if listed[id] {
			j.judge(m, r.Now, &v)
		}
	}

	return v
}

// updateMembers takes over the heartbeats of a roster. It returns the ids of all other instances
// in it.
func (j *detector) updateMembers(own string, r Roster) map[string]bool {
	listed := make(map[string]bool, len(r.Heartbeats))
	for _, s := range r.Heartbeats {
		if s.ID == own || !validID(s.ID) {
			continue
		}

		listed[s.ID] = true

		m := j.members[s.ID]
		if m == nil {
			m = &member{heartbeat: s, seen: r.Now, interval: maxInterval.Milliseconds()}
			m.unresponsive = r.Now-m.at() >= missedUnresponsive*m.interval
			j.members[s.ID] = m
		}

		if s.At != m.heartbeat.At {
			m.seen, m.unresponsive = r.Now, false
		}

		m.heartbeat = s
		m.seen = min(m.seen, r.Now)
	}

	return listed
}

// judge adds to the findings whether a member is dead, or when it may be.
func (j *detector) judge(m *member, now int64, v *findings) {
	wait, may := j.deadIn(m, now)
	switch {
	case !may:
	case wait > 0:
		if d := time.Duration(wait) * time.Millisecond; v.next == 0 || d < v.next {
			v.next = d
		}
	case m.heartbeat.Connections == 0:
		v.dead = append(v.dead, m.heartbeat)
	}
}

// updateWindow follows since when Redis was reached without a break.
func (j *detector) updateWindow(subscription uint64, r Roster) {
	if j.last == 0 || r.Now < j.last || r.Now-j.last > missedBreak*j.interval {
		j.reached, j.window = r.Now, 0
	}

	if subscription == 0 || subscription != j.subscription || r.Connections <= 0 {
		j.window = 0
	}

	if j.window == 0 && subscription != 0 && r.Connections > 0 {
		j.window = r.Now
	}

	j.last, j.subscription = r.Now, subscription
}

// deadIn returns in how many ms a member may be declared dead if it publishes no heartbeat. may is
// false if it cannot be declared dead.
func (j *detector) deadIn(m *member, now int64) (wait int64, may bool) {
	if j.takeover == 0 || m.takeover == 0 || !m.heartbeat.Bound || j.window == 0 {
		return 0, false
	}

	return max(m.at(), j.window) + m.takeover - now, true
}

// suspects returns the members that may be declared dead by the next heartbeat, which asks for
// their connections.
func (j *detector) suspects() []string {
	var list []string
	for id, m := range j.members {
		if wait, may := j.deadIn(m, j.last); may && wait <= j.interval+j.interval/2 && len(list) < MaxAsked {
			list = append(list, id)
		}
	}

	return list
}

// undescribed returns the members whose description is to be read. A missing description is read
// again at every tenth call only, because a dead instance never publishes it.
func (j *detector) undescribed() []string {
	var list []string
	for id, m := range j.members {
		if m.described || len(list) == MaxAsked {
			continue
		}

		if m.tries%10 == 0 {
			list = append(list, id)
		}

		m.tries++
	}

	return list
}

// describe records the description of a member.
func (j *detector) describe(id string, a About) {
	m := j.members[id]
	if m == nil {
		return
	}

	takeover := min(max(0, a.Takeover), MaxTakeover.Milliseconds())
	m.described, m.label, m.takeover, m.routes, m.sealKeys = true, a.Label, takeover, a.Routes, a.SealKeys
	if a.FollowsRecorded && a.Routes != nil { // an instance without routes has a map without entries
		if m.prefixes = a.Prefixes; m.prefixes == nil {
			m.prefixes = map[string]string{}
		}
	}

	m.interval = intervalOf(time.Duration(takeover) * time.Millisecond).Milliseconds()
}

package fleet

import "time"

// Times that follow from a TAKEOVER.
const (
	longestBeat = time.Second
	beatsSilent = 3 // without a sign: silent
	beatsBroken = 2 // between two signs of one's own: the window is broken
)

// beatOf is how often an instance with that takeover gives a sign of life.
func beatOf(takeover time.Duration) time.Duration {
	if takeover <= 0 {
		return longestBeat
	}
	return min(longestBeat, takeover/beatsSilent)
}

// member is what an observer knows of another instance. Times are by Redis, in
// ms.
type member struct {
	sign Sign
	// seen is when this sign was read first. A sign that claims to be later than
	// that counts from there.
	seen   int64
	silent bool
	// takeover is the member's own, in ms; 0 = never, or not known yet.
	takeover  int64
	beat      int64
	described bool
	tries     int // to read what it tells
	label     string
	routes    map[string]string // their digests by name; nil = not known
}

func (m *member) at() int64 { return min(m.sign.At, m.seen) }

// judge tells the living from the silent and the gone. It is pure: all it
// knows of time is in the rolls it reads.
type judge struct {
	takeover int64 // 0 = none is ever gone
	beat     int64
	last     int64 // the roll before; 0 = there is none, or a beat failed since
	reached  int64 // since when no beat failed
	window   int64 // since when gone may be told; 0 = it may not
	line     uint64
	members  map[string]*member
}

func newJudge(takeover time.Duration) *judge {
	return &judge{takeover: takeover.Milliseconds(), beat: beatOf(takeover).Milliseconds(), members: map[string]*member{}}
}

// failed notes that a beat failed, or that its answer is not known.
func (j *judge) failed() { j.last = 0 }

// verdict is what follows from a roll.
type verdict struct {
	gone []Sign   // to be counted out
	left []string // members that are there no more, however they ended
	// next is when somebody may be gone; 0 = nobody for now.
	next time.Duration
}

// read takes a roll. own is the id of the observer, line the number of its
// subscription when the beat began; 0 = it had none.
func (j *judge) read(own string, line uint64, r Roll) verdict {
	j.windows(line, r)
	var v verdict
	there := make(map[string]bool, len(r.Signs))
	for _, s := range r.Signs {
		if s.ID == own || !validID(s.ID) {
			continue
		}
		there[s.ID] = true
		m := j.members[s.ID]
		if m == nil {
			m = &member{sign: s, seen: r.Now, beat: longestBeat.Milliseconds()}
			m.silent = r.Now-m.at() >= beatsSilent*m.beat
			j.members[s.ID] = m
		}
		if s.At != m.sign.At {
			m.seen, m.silent = r.Now, false
		}
		m.sign = s
		m.seen = min(m.seen, r.Now)
	}
	ended := make(map[string]bool, len(r.Departures))
	for _, d := range r.Departures {
		ended[d.ID] = true
	}
	for id, m := range j.members {
		since := r.Now - max(m.at(), j.reached)
		m.silent = m.silent || since >= beatsSilent*max(m.beat, j.beat)
		// Without a mark an entry was lost with Redis's data, and comes again
		// if its instance lives.
		if !there[id] && (ended[id] || m.silent) {
			v.left = append(v.left, id)
			delete(j.members, id)
			continue
		}
		wait, may := j.goneIn(m, r.Now)
		switch {
		case !may || !there[id]:
		case wait > 0:
			if d := time.Duration(wait) * time.Millisecond; v.next == 0 || d < v.next {
				v.next = d
			}
		case m.sign.Connections == 0:
			v.gone = append(v.gone, m.sign)
		}
	}
	return v
}

// windows follows since when Redis was reached without a break.
func (j *judge) windows(line uint64, r Roll) {
	if j.last == 0 || r.Now < j.last || r.Now-j.last > beatsBroken*j.beat {
		j.reached, j.window = r.Now, 0
	}
	if line == 0 || line != j.line || r.Connections <= 0 {
		j.window = 0
	}
	if j.window == 0 && line != 0 && r.Connections > 0 {
		j.window = r.Now
	}
	j.last, j.line = r.Now, line
}

// goneIn is in how many ms a member is gone if it gives no sign; may is false
// if it cannot be told.
func (j *judge) goneIn(m *member, now int64) (wait int64, may bool) {
	if j.takeover == 0 || m.takeover == 0 || !m.sign.Bound || j.window == 0 {
		return 0, false
	}
	return max(m.at(), j.window) + m.takeover - now, true
}

// suspects are those whose connections the next beat asks for: they may be gone
// by then.
func (j *judge) suspects() []string {
	var list []string
	for id, m := range j.members {
		if wait, may := j.goneIn(m, j.last); may && wait <= j.beat+j.beat/2 && len(list) < MaxAsked {
			list = append(list, id)
		}
	}
	return list
}

// unknown are members of whom nothing was told yet. What is not there is looked
// for every tenth time only: a dead one does not tell it any more.
func (j *judge) unknown() []string {
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

// describe notes what a member says of itself.
func (j *judge) describe(id string, a About) {
	m := j.members[id]
	if m == nil {
		return
	}
	takeover := min(max(0, a.Takeover), MaxTakeover.Milliseconds())
	m.described, m.label, m.takeover, m.routes = true, a.Label, takeover, a.Routes
	m.beat = beatOf(time.Duration(takeover) * time.Millisecond).Milliseconds()
}

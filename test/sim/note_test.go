package sim

import (
	"fmt"
	"strconv"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// note is the reference model of one key: the state that Redis must have.
type note struct {
	state   notice.State // "", scheduled (also while it is claimed), dead, delivered, cancelled
	under   string       // the route's prefix
	place   int          // the place; -1 = it never had one
	away    bool         // it is exported from place
	to      int          // the place it is exported to
	fresh   bool         // it was created in this step
	body    int          // names the schedule call that created it
	made    notice.Made
	used    int // attempts in the record
	awaits  bool
	far     bool // due in an hour; else now
	score   int  // names the score; 0 = not pending
	dueIs   int  // names the score that equals the record's due time; 0 = none
	lapses  int  // claims since the last settle
	holder  string
	lasts   bool        // the holder's lease is an hour; else it has expired
	writes  int         // number of writes of the record
	timer   bool        // a timer was set with it
	heldBy  notice.Held // the reason of a postponement
	life    life
	watched bool // its entry among the notices that expire is that of a claim, which lasts

	// Of a sequence.
	position string // "" = not a member
	waits    bool   // it was parked, and not woken since
	parked   bool   // its score is in the future, because it was parked
	outlasts bool   // it is parked for longer than the marker lasts
	late     bool   // it was given to a consumer after its lease had ended

	// Of adoption.
	adopted bool
	lost    bool    // the body is not known
	due     int64   // the expected due time, Unix ms; 0 = not known
	stands  float64 // the score at the last comparison
}

func (n *note) pending() bool { return n.state == notice.Scheduled }

// timed reports whether the notice waits and has a timer.
func (n *note) timed() bool { return n.pending() && n.lapses == 0 && n.timer }

// text returns the body.
func (n *note) text() string {
	if n.lost || n.state == "" {
		return ""
	}
	return strconv.Itoa(n.body)
}

// claimable reports whether a claim by another instance wins.
func (n *note) claimable() bool {
	return n.state == notice.Scheduled && !n.away && !n.parked && (n.lapses == 0 && !n.far || n.lapses > 0 && !n.lasts)
}

// held reports whether a lease lasts.
func (n *note) held() bool { return n.state == notice.Scheduled && n.lapses > 0 && n.lasts }

func (n *note) public() notice.State {
	if n.held() {
		return notice.Claimed
	}
	return n.state
}

func (n *note) String() string {
	if n.state == "" {
		return "nothing"
	}
	s := fmt.Sprintf("%s body %d, %d attempts", n.public(), n.body, n.used)
	if n.held() {
		s += " by " + n.holder
	}
	if n.under != prefix {
		s += ", under " + n.under
	}
	return s + n.life.String()
}

// when is a due time or the end of a lease, by choice.
type when int

const (
	now when = iota
	soon
	later
)

func (w when) String() string { return [...]string{"now", "in 2 ms", "in 1 h"}[w] }

// scores numbers the written scores, so that the model can compare them.
type scores int

func (s *scores) fresh() int { *s++; return int(*s) }

// schedule makes n pending.
func (n *note) schedule(s *scores, w when) {
	n.state, n.far, n.score, n.lapses, n.holder, n.lasts = notice.Scheduled, w == later, s.fresh(), 0, "", false
	n.timer, n.parked, n.late = w != now, false, false
	n.dueIs, n.due, n.heldBy, n.watched = 0, 0, "", false
	if n.timer {
		n.dueIs = n.score
	}
	n.writes++
}

// settle finalizes n with a state.
func (n *note) settle(state notice.State) {
	n.state, n.score, n.lapses, n.holder, n.lasts, n.far, n.timer, n.dueIs = state, 0, 0, "", false, false, false, 0
	n.watched = false
	n.writes++
}

// claim records a won claim.
func (n *note) claim(s *scores, token string, lasts bool) {
	n.lapses++
	n.score, n.holder, n.lasts, n.far, n.timer, n.parked, n.late = s.fresh(), token, lasts, false, false, false, false
}

func reportToken(n *note) string {
	return "report:" + strconv.FormatInt(int64(n.made), 10) + ":" + strconv.Itoa(n.used)
}

// job is a claim of an instance.
type job struct {
	key           int
	under         string
	place         int
	token         string
	body, used    int
	made          notice.Made
	score, before int
	lapses        int
	awaits        bool
	stage         stage
	claim         store.Claim
	end           *settlement // a settle whose reply was lost
}

// stage is the progress of a claim, and so a point at which its instance may crash.
type stage int

const (
	claimed    stage = iota // before its handler
	succeeded               // after the handler, before the settle
	failed                  // after the handler, before the settle
	unanswered              // the reply of the settle was lost
)

func (s stage) String() string {
	return [...]string{"before its handler", "after a handler that succeeded", "after a handler that failed", "before the settle's reply"}[s]
}

// settles reports whether the settle of a job must be accepted.
func (n *note) settles(j *job) bool {
	if n.under != j.under || n.place != j.place || n.away {
		return false
	}
	if n.held() {
		return n.holder == j.token
	}
	return n.state == notice.Scheduled && n.made == j.made && (n.score == j.score || n.score == j.before && j.before != 0)
}

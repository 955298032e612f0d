package sim

import (
	"fmt"
	"strconv"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// note is the reference model of one key: what must be so in Redis.
type note struct {
	state  notice.State // "", scheduled (also while it is claimed), dead, delivered, cancelled
	under  string       // the prefix it lies under
	place  int          // in which shard; -1 = it never lay in any
	away   bool         // it has left that, on its way
	to     int          // where it goes then
	fresh  bool         // it was made in this step
	body   int          // which schedule call made it
	made   notice.Made
	used   int // attempts in the record
	awaits bool
	far    bool // due in an hour; else now
	score  int  // which score it has; 0 = not pending
	dueIs  int  // the score that its record's due time makes, 0 = none such
	lapses int  // claims since the last settle
	holder string
	lasts  bool        // the holder's lease is an hour; else it has lapsed
	writes int         // of its record
	timer  bool        // it was scheduled with one
	heldBy notice.Held // what a postponement waits for

	// Of adoption.
	adopted bool
	lost    bool    // its body is not known
	due     int64   // when it must be, Unix ms; 0 = not known
	stands  float64 // its score, as it was when it was looked at last
}

func (n *note) pending() bool { return n.state == notice.Scheduled }

// timed: it waits, and has a timer of its own.
func (n *note) timed() bool { return n.pending() && n.lapses == 0 && n.timer }

// text is its body.
func (n *note) text() string {
	if n.lost || n.state == "" {
		return ""
	}
	return strconv.Itoa(n.body)
}

// claimable: a claim by another wins.
func (n *note) claimable() bool {
	return n.state == notice.Scheduled && !n.away && (n.lapses == 0 && !n.far || n.lapses > 0 && !n.lasts)
}

// held: somebody's lease lasts.
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
	return s
}

// when is how a time is chosen.
type when int

const (
	now when = iota
	soon
	later
)

func (w when) String() string { return [...]string{"now", "in 2 ms", "in 1 h"}[w] }

// scores numbers the scores that were written, so that equal ones are one.
type scores int

func (s *scores) fresh() int { *s++; return int(*s) }

// schedule makes n pending.
func (n *note) schedule(s *scores, w when) {
	n.state, n.far, n.score, n.lapses, n.holder, n.lasts = notice.Scheduled, w == later, s.fresh(), 0, "", false
	n.timer = w != now
	n.dueIs, n.due, n.heldBy = 0, 0, ""
	if n.timer {
		n.dueIs = n.score
	}
	n.writes++
}

// settle makes it no longer pending.
func (n *note) settle(state notice.State) {
	n.state, n.score, n.lapses, n.holder, n.lasts, n.far, n.timer, n.dueIs = state, 0, 0, "", false, false, false, 0
	n.writes++
}

// claim is a won one.
func (n *note) claim(s *scores, token string, lasts bool) {
	n.lapses++
	n.score, n.holder, n.lasts, n.far, n.timer = s.fresh(), token, lasts, false, false
}

func reportToken(n *note) string {
	return "report:" + strconv.FormatInt(int64(n.made), 10) + ":" + strconv.Itoa(n.used)
}

// job is a claim in an instance's hands.
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
	end           *settlement // whose reply was lost
}

// stage is how far an instance has come with a claim: the points where it may die.
type stage int

const (
	claimed    stage = iota // before its handler
	succeeded               // after the handler, before the settle
	failed                  // likewise
	unanswered              // the settle's reply was lost
)

func (s stage) String() string {
	return [...]string{"before its handler", "after a handler that succeeded", "after a handler that failed", "before the settle's reply"}[s]
}

// settles reports whether the settle of a job must be taken.
func (n *note) settles(j *job) bool {
	if n.under != j.under || n.place != j.place || n.away {
		return false
	}
	if n.held() {
		return n.holder == j.token
	}
	return n.state == notice.Scheduled && n.made == j.made && (n.score == j.score || n.score == j.before && j.before != 0)
}

package receivers

import (
	"time"

	"go.uber.org/zap"
)

const (
	// A receiver is logged as failing after failedRow failures in a row, or after failures over failedFor: not after
	// the single failures of one that answers.
	failedRow = 5
	failedFor = 10 * time.Second
	// mostLines is the maximum number of receivers in the log within a minute.
	mostLines = 20
)

// row is the failures in a row of a receiver at this instance.
type row struct {
	since  time.Time // the first one
	n      int
	logged bool
}

// turn is the consequence of an attempt for the log.
type turn struct {
	begins, ends bool
	further      bool // the first turn after mostLines in a minute
	row          row
}

// add adds an attempt to the row.
func (r *row) add(a Attempt) (t turn) {
	if !a.Failed {
		t = turn{ends: r.logged, row: *r}
		*r = row{}
		return t
	}

	if r.n == 0 {
		r.since = a.At
	}

	r.n++
	if !r.logged && (r.n >= failedRow || a.At.Sub(r.since) >= failedFor) {
		r.logged = true
		t = turn{begins: true, row: *r}
	}

	return t
}

// lines limits the lines of all receivers.
type lines struct {
	minute time.Time
	n      int
}

// of returns the turn if it has a line.
func (l *lines) of(t turn, at time.Time) turn {
	if !t.begins && !t.ends {
		return t
	}

	if at.Sub(l.minute) >= time.Minute {
		l.minute, l.n = at, 0
	}

	l.n++
	switch {
	case l.n <= mostLines:
		return t
	case l.n == mostLines+1:
		return turn{further: true}
	}

	return turn{}
}

// write logs the turn that an attempt led to. The end is a warning too, so that a log with the beginning has it.
func (t turn) write(logger *zap.Logger, prefix, receiver string, a Attempt) {
	if logger == nil {
		return
	}

	where := []zap.Field{zap.String("prefix", prefix), zap.String("receiver", receiver), zap.Int("failures", t.row.n),
		zap.Time("since", t.row.since)}
	switch {
	case t.begins:
		logger.Warn("receiver fails, retrying its notices", append(where, zap.String("reason", a.Reason), zap.Int("status", a.Status))...)
	case t.ends:
		logger.Warn("receiver succeeds again", append(where, zap.String("after", a.At.Sub(t.row.since).Round(100*time.Millisecond).String()))...)
	case t.further:
		logger.Warn("further receivers begin or cease to fail, not logging them for a minute")
	}
}

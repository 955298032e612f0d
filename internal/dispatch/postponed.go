package dispatch

import (
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

const (
	// postponedStep is the precision with which the ends of postponements are counted.
	postponedStep = 250 * time.Millisecond
	// maxPostponedHosts bounds the number of entries with a host. Above it, entries are counted
	// without their host.
	maxPostponedHosts = 4096
)

// postponement is the properties by which postponed notices are counted.
type postponement struct {
	end  int64 // in steps, rounded up
	held notice.Held
	host string // empty = no host, or not counted by host
}

// postponed counts the due notices that this instance has postponed, by cause and host. A notice is
// counted until its postponement ends or this instance claims it, whatever other instances do. The
// gate's lock guards it.
type postponed struct{ n map[postponement]int }

func postponementOf(end time.Time, held notice.Held, host string) postponement {
	return postponement{(end.UnixNano() + int64(postponedStep) - 1) / int64(postponedStep), held, host}
}

func (p *postponed) add(end time.Time, held notice.Held, host string) {
	if p.n == nil {
		p.n = map[postponement]int{}
	}

	x := postponementOf(end, held, host)
	if p.n[x] == 0 && len(p.n) >= maxPostponedHosts {
		if p.prune(time.Now()); len(p.n) >= maxPostponedHosts {
			x.host = ""
		}
	}

	p.n[x]++
}

// remove reverts an add.
func (p *postponed) remove(end time.Time, held notice.Held, host string) {
	x := postponementOf(end, held, host)
	if p.n[x] == 0 {
		x.host = ""
	}

	if p.n[x] > 1 {
		p.n[x]--
	} else {
		delete(p.n, x)
	}
}

// prune deletes the postponements that have ended.
func (p *postponed) prune(now time.Time) {
	at := now.UnixNano() / int64(postponedStep)
	for x := range p.n {
		if x.end <= at {
			delete(p.n, x)
		}
	}
}

// Waiting is the number of due notices that this instance has postponed.
type Waiting struct {
	By    map[notice.Held]int // by cause
	Hosts map[string]int      // by the host whose slots they wait for
}

// Waiting returns the number of postponed notices of a route.
func (d *Dispatcher) Waiting(prefix string) Waiting {
	w := Waiting{By: map[notice.Held]int{}, Hosts: map[string]int{}}
	if q := d.queues[prefix]; q != nil {
		q.gate.count(&w)
	}

	return w
}

// waitsFor returns the cause for which a settled attempt's notice is postponed, and whether it is counted. Notices of
// paused receivers are not: they are listed in Redis, and a resume ends their postponement early.
func (e *finished) waitsFor() (notice.Held, bool) {
	held := notice.HeldBy(e.result.Reason)
	return held, e.Ending == store.EndPostponed && held != notice.HeldNone && held != notice.HeldPaused && e.After > 0
}

package receivers

import (
	"cmp"
	"slices"
	"time"
)

// HoldTable is the entries of one version. It does not change.
type HoldTable struct {
	version   int64
	pauses    map[string]*Pause
	hosts     map[string][]*Pause
	audiences map[string][]*Pause
	limits    map[string][]*Limit
}

func newHoldTable(version int64, values map[string]string) *HoldTable {
	t := &HoldTable{version: version, pauses: map[string]*Pause{}, hosts: map[string][]*Pause{}, audiences: map[string][]*Pause{},
		limits: map[string][]*Limit{}}
	for field, text := range values {
		p, l := readEntry(field, text)
		switch {
		case l != nil:
			t.limits[l.Host] = append(t.limits[l.Host], l)
		case p == nil:
		case p.Host == "":
			t.audiences[p.Audience] = append(t.audiences[p.Audience], p)
		default:
			t.hosts[p.Host] = append(t.hosts[p.Host], p)
		}

		if p != nil {
			t.pauses[field] = p
		}
	}

	return t
}

// Held returns the pause that holds a notice at that time; nil if there is none. host is the receiver with its port.
// Of several pauses it returns the one that ends last.
func (t *HoldTable) Held(key, host, audience string, now time.Time) (last *Pause) {
	return t.held(key, host, audience, func(p *Pause) bool { return p.Active(now) })
}

// held returns the last pause of those that hold.
func (t *HoldTable) held(key, host, audience string, holds func(p *Pause) bool) (last *Pause) {
	look := func(list []*Pause) {
		for _, p := range list {
			if p.covers(key) && (p.Audience == "" || p.Audience == audience) && holds(p) && (last == nil || p.endsAfter(last)) {
				last = p
			}
		}
	}
	if host != "" {
		look(t.hosts[host])
		look(t.hosts[Host(host)])
	}

	if audience != "" {
		look(t.audiences[audience])
	}

	return last
}

// endsAfter reports whether p ends after o. Pauses with the same end are sorted by their names, so that all instances
// choose the same one.
func (p *Pause) endsAfter(o *Pause) bool {
	if p.Until.IsZero() != o.Until.IsZero() {
		return p.Until.IsZero()
	}
	return cmp.Or(p.Until.Compare(o.Until), cmp.Compare(p.String(), o.String())) > 0
}

// Limit returns the lowest limits of a host with its port on the route with a prefix; 0 = none.
func (t *HoldTable) Limit(prefix, host string) (rate float64, concurrency int) {
	if len(t.limits) == 0 {
		return 0, 0
	}

	for _, list := range [][]*Limit{t.limits[host], t.limits[Host(host)]} {
		for _, l := range list {
			if !l.covers(prefix) {
				continue
			}

			if l.Rate > 0 && (rate == 0 || l.Rate < rate) {
				rate = l.Rate
			}

			if l.Concurrency > 0 && (concurrency == 0 || l.Concurrency < concurrency) {
				concurrency = l.Concurrency
			}
		}
	}

	return rate, concurrency
}

// Pauses returns all pauses, sorted by their fields. Those that are being released are included.
func (t *HoldTable) Pauses() []*Pause {
	list := make([]*Pause, 0, len(t.pauses))
	for _, p := range t.pauses {
		list = append(list, p)
	}

	slices.SortFunc(list, func(a, b *Pause) int { return cmp.Compare(a.String(), b.String()) })
	return list
}

// Limits returns all limits, sorted by host and prefix.
func (t *HoldTable) Limits() []*Limit {
	var list []*Limit
	for _, some := range t.limits {
		list = append(list, some...)
	}

	slices.SortFunc(list, func(a, b *Limit) int { return cmp.Compare(limitField(a.Receiver), limitField(b.Receiver)) })
	return list
}

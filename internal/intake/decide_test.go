package intake

import (
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

func TestDecide(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	const soon, later = 1_010_000, 1_020_000 // expiries
	kept := func(state notice.State, due int64, body string, used int) store.Found {
		return store.Found{State: state, Notice: &notice.Notice{Due: time.UnixMilli(due), AttemptsMade: used,
			Content: notice.Content{Body: []byte(body)}}}
	}
	timer := func(value string, expire int64, f store.Found) Seen {
		return Seen{Value: []byte(value), Length: int64(len(value)), Expire: expire, Found: f}
	}
	none := func(f store.Found) Seen { return Seen{Length: NoKey, Found: f} }
	bare := func(s Seen) Seen {
		s.NoTimer = true
		return s
	}
	scan, event, removed := eventSet{}, eventSet{event: true}, eventSet{event: true, removed: true}
	expire := eventSet{event: true, value: valueExpire}
	set := eventSet{event: true, value: valueSet}.and(expire)
	again := set.and(eventSet{compared: true, firstExpire: later})
	const nothing, adopt, move, cancel = Operation(""), OpAdopt, OpMove, OpCancel
	pending := kept(notice.Scheduled, soon+1, "p", 0)
	compared := eventSet{compared: true}
	adopted := kept(notice.Scheduled, soon+1, "p", 0)
	adopted.Adopted = true
	near := kept(notice.Scheduled, 1_000_200, "p", 0)
	near.Adopted = true
	retry := kept(notice.Scheduled, soon+1, "p", 2)
	for _, c := range []struct {
		name    string
		seen    Seen
		events  eventSet
		want    Operation
		cluster Operation
	}{
		{"a new timer", timer("p", soon, store.Found{}), event, adopt, adopt},
		{"a new timer, found by a scan", timer("p", soon, store.Found{}), scan, adopt, adopt},
		{"no timer and no notice", none(store.Found{}), event, nothing, nothing},
		{"a list", Seen{Length: NoString}, event, nothing, nothing},
		{"a hash in the timer's place", Seen{Length: NoString, Expire: -1, Found: pending}, removed, cancel, cancel},
		{"renamed over the timer", Seen{Length: NoString, Expire: -1, Found: pending}, event, cancel, cancel},
		{"gone, compared", none(adopted), compared, cancel, nothing},
		{"eternal, compared", timer("p", -1, adopted), compared, cancel, nothing},
		{"a hash, compared", Seen{Length: NoString, Expire: -1, Found: adopted}, compared, cancel, nothing},
		{"eternal and adopted, found by a scan", timer("p", -1, adopted), scan, cancel, nothing},
		{"gone and adopted, found by a scan", none(adopted), scan, nothing, nothing},
		{"gone, compared, of the API", none(pending), compared, nothing, nothing},
		{"gone, compared, about to be due", none(near), compared, nothing, nothing},
		{"moved, compared", timer("p", later, adopted), compared, move, nothing},
		{"a key that never expires", timer("p", -1, store.Found{}), event, nothing, nothing},
		{"adopted already", timer("p", soon, pending), event, nothing, nothing},
		{"another payload", timer("q", soon, pending), event, adopt, adopt},
		{"another payload and time", timer("q", later, pending), event, adopt, adopt},
		{"moved", timer("p", later, pending), event, move, move},
		{"moved, found by a scan", timer("p", later, pending), scan, move, nothing},
		{"our timer", timer("1", soon, pending), event, nothing, nothing},
		{"our timer after a reschedule", timer("0", soon, pending), event, nothing, nothing},
		{"our timer of a retry", timer("3", soon, retry), event, nothing, nothing},
		{"our timer of a retry, moved", timer("3", later, retry), event, move, move},
		{"a payload that is a number as ours, or our number, set by us and then moved", timer("1", later, adopted), set, opWait, move},
		{"a payload that is a number as ours, during retries", timer("3", later, retry), set, opWait, move},
		{"the same, checked again", timer("3", later, retry), again, adopt, move},
		{"the same, moved since the first check", timer("3", later+1, retry), again, opWait, move},
		{"the same, and the event of the move has come", timer("3", later, retry), again.and(expire), move, move},
		{"a payload that is a number as ours, and a short life", timer("3", 1_000_400, retry), set, adopt, move},
		{"the number of ours that is the payload, set again", timer("1", later, kept(notice.Scheduled, soon+1, "1", 0)), set, move, move},
		{"our number, set by us", timer("3", soon, retry), set, nothing, nothing},
		{"our number with another due time, of which nothing was heard yet: it may be a payload", timer("3", later, retry), eventSet{asked: true},
			nothing, nothing},
		{"the same, found by a scan", timer("3", later, retry), scan, move, nothing},
		{"the same, found by a scan's first look", timer("3", later, retry), eventSet{scanned: true}, opWait, nothing},
		{"the same, and its event came before the look", timer("3", later, retry), eventSet{scanned: true}.and(set), opWait, move},
		{"our number, set by us and moved", timer("3", later, retry), set.and(expire), move, move},
		{"no number of ours", timer("2", soon, retry), event, adopt, adopt},
		{"the payload again, during retries", timer("p", later, retry), event, adopt, adopt},
		{"removed", none(pending), removed, cancel, cancel},
		{"missing without a removal: evicted", none(pending), event, nothing, nothing},
		{"expired before its new life was heard of", none(pending), eventSet{event: true, expired: true}, move, nothing},
		{"expired, and moved on by us", timer("2", later, kept(notice.Scheduled, later+1, "p", 1)), eventSet{event: true, expired: true},
			nothing, nothing},
		{"our timer of a retry, set when that was over", timer("2", soon, kept(notice.Delivered, soon+1, "p", 2)), event, adopt, nothing},
		{"gone, found by a scan", none(pending), scan, nothing, nothing},
		{"removed during retries", none(retry), removed, cancel, cancel},
		{"removed during an attempt", none(kept(notice.Claimed, 999_000, "p", 0)), removed, nothing, nothing},
		{"removed when due", none(kept(notice.Scheduled, 1_000_000, "p", 0)), removed, nothing, nothing},
		{"removed in its last second", none(kept(notice.Scheduled, 1_000_900, "p", 0)), removed, cancel, nothing},
		{"our own removal, to fire it", bare(none(kept(notice.Scheduled, 1_000_000, "p", 0))), removed, nothing, nothing},
		{"our own removal, to cancel it", none(kept(notice.Cancelled, soon+1, "p", 0)), removed, nothing, nothing},
		{"made eternal", timer("p", -1, pending), event, cancel, cancel},
		{"eternal, found by a scan", timer("p", -1, pending), scan, nothing, nothing},
		{"set again during an attempt", timer("q", soon, kept(notice.Claimed, 999_000, "p", 0)), event, adopt, adopt},
		{"set again when delivered", timer("p", soon, kept(notice.Delivered, 999_000, "p", 1)), event, adopt, adopt},
		{"set again when cancelled, same time", timer("q", soon, kept(notice.Cancelled, soon+1, "p", 0)), event, adopt, adopt},
		{"set over a dead letter", timer("q", soon, kept(notice.Dead, 999_000, "p", 9)), scan, adopt, adopt},
		{"set over one that fires", bare(timer("q", soon, kept(notice.Scheduled, 1_000_000, "p", 0))), event, adopt, adopt},
		{"our timer, set after its notice was cancelled", timer("1", soon, kept(notice.Cancelled, soon+1, "p", 0)), scan, adopt, nothing},
	} {
		if got := decide(&c.seen, c.events, now, false); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := decide(&c.seen, c.events, now, true); got != c.cluster {
			t.Errorf("%s, in a cluster: %q, want %q", c.name, got, c.cluster)
		}
	}
	long := Seen{Length: 1 << 30, Expire: soon, Found: pending}
	if got := decide(&long, event, now, false); got != adopt {
		t.Errorf("a payload too long: %q", got)
	}
	long.Found = kept(notice.Scheduled, soon+1, "", 0)
	long.Lost = true
	if got := decide(&long, event, now, false); got != nothing {
		t.Errorf("a payload too long, adopted: %q", got)
	}
}

func TestReadEvent(t *testing.T) {
	for event, want := range map[string]eventSet{"set": {event: true, value: valueSet}, "expire": {event: true, value: valueExpire},
		"persist": {event: true}, "append": {event: true},
		"del": {event: true, removed: true}, "rename_from": {event: true, removed: true}, "expired": {expired: true}} {
		if got, ok := readEvent(event); !ok || got != want {
			t.Errorf("%s: %+v", event, got)
		}
	}
	if _, ok := readEvent("evicted"); ok {
		t.Error("an eviction is heard")
	}
}

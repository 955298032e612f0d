package history

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
)

// belongs opens a history for an owner.
func belongs(t *testing.T, url string, o Owner) *DB {
	t.Helper()
	d := open(t, Options{URL: url})
	d.Serve(func(context.Context) (Owner, error) { return o, nil })
	return d
}

func TestHistoryRefusesAnotherOwner(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		mine, others := Owner{"notifier", "AAA"}, []Owner{{"notifier", "BBB"}, {"staging", "AAA"}}
		d := belongs(t, url, mine)
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil))
		write(t, d, rows[:1])
		r := askedFor(nil)
		if _, err := add(t, d, r); err != nil {
			t.Fatal(err)
		}

		for _, o := range others {
			x := belongs(t, url, o)
			_, werr := x.Write(t.Context(), rows[1:])
			_, ferr := x.Find(t.Context(), Query{Limit: 1})
			_, _, terr := x.TakeReplay(t.Context(), "driver", time.Minute, nil)
			_, serr := x.StopReplay(t.Context(), r.ID)
			rerr := x.Refuse(t.Context(), Erasure{Key: rows[0].Key}, noon)
			_, xerr := x.Expire(t.Context(), time.Now())
			for op, err := range map[string]error{"write": werr, "find": ferr, "take": terr, "stop": serr, "refuse": rerr, "expire": xerr} {
				if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "claim --from AAA") {
					t.Errorf("%+v: %s: %v", o, op, err)
				}
			}
		}
		if got := strings.Join(all(t, d, Query{Limit: 10}), " "); got != "1/1" {
			t.Errorf("rows: %s", got)
		}
	})
}

// Regression test: the count before the first entry succeeded, so that the next one came an hour later. Reports were incomplete until then.
func TestRecountFailsBeforeTheFirstEntry(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := belongs(t, url, Owner{"notifier", "AAA"})
		if _, err := d.Recount(t.Context(), noon); !errors.Is(err, errUnowned) {
			t.Errorf("without an entry: %v", err)
		}
		write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
		if _, err := d.Recount(t.Context(), noon); err != nil {
			t.Error(err)
		}
		if r := reported(t, d, nil); r.Counting {
			t.Error("the report is incomplete")
		}
	})
}

// The new side of a migration starts before it has the identity of the old side: it must
// not take the history by looking at it.
func TestFirstWriterBecomesOwner(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		looks, writes := belongs(t, url, Owner{"notifier", "BBB"}), belongs(t, url, Owner{"notifier", "AAA"})
		if _, err := looks.Find(t.Context(), Query{Limit: 1}); err != nil {
			t.Fatal(err)
		}
		if err := looks.PassOutbox(t.Context(), "home", noon); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := looks.Owner(t.Context()); err != nil || ok {
			t.Errorf("owned: %v, %v", ok, err)
		}
		write(t, writes, rowsOf(BodiesKeep, ended(1, nil)))
		if has, ok, err := looks.Owner(t.Context()); err != nil || !ok || has.ID != "AAA" {
			t.Errorf("%+v, %v, %v", has, ok, err)
		}
		if _, err := looks.Find(t.Context(), Query{Limit: 1}); !errors.Is(err, ErrForeign) {
			t.Errorf("the other finds: %v", err)
		}
	})
}

func TestClaimTransfersHistory(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		old, next := Owner{"notifier", "AAA"}, Owner{"notifier", "BBB"}
		d := belongs(t, url, old)
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil))
		write(t, d, rows[:1])
		r := askedFor(nil)
		if _, err := add(t, d, r); err != nil {
			t.Fatal(err)
		}
		x := belongs(t, url, next)
		if _, err := x.Claim(t.Context(), "CCC", next); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "--from AAA") {
			t.Errorf("from a wrong one: %v", err)
		}
		for _, want := range []bool{true, false} {
			if changed, err := x.Claim(t.Context(), "AAA", next); err != nil || changed != want {
				t.Errorf("changed %v, %v; want %v", changed, err, want)
			}
		}
		write(t, x, rows[1:])
		if got := strings.Join(all(t, x, Query{Limit: 10}), " "); got != "2/1 1/1" {
			t.Errorf("rows: %s", got)
		}
		// Replays of the old owner end.
		if _, ok, err := x.TakeReplay(t.Context(), "driver", time.Minute, nil); err != nil || ok {
			t.Errorf("takes the other's replay: %v, %v", ok, err)
		}
		if was, ok, err := x.Replay(t.Context(), r.ID); err != nil || !ok || was.State != ReplayFailed || was.Reason != claimed {
			t.Errorf("%+v, %v, %v", was, ok, err)
		}
		// An instance of the old owner that still runs writes nothing.
		if _, err := d.Write(t.Context(), rowsOf(BodiesKeep, ended(3, nil))); !errors.Is(err, ErrForeign) {
			t.Errorf("the old owner: %v", err)
		}
	})
}

// The history of an emptied Redis follows its service; another service's history does not.
func TestHistoryFollowsServiceWhoseDataAreLost(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := belongs(t, url, Owner{"notifier", "AAA"})
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil))
		write(t, d, rows[:1])
		r := askedFor(nil)
		if _, err := add(t, d, r); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Owner{{"staging", "BBB"}, {"notifier", "BBB"}} {
			var claims []string
			x := belongs(t, url, o)
			x.FollowLost(func(id string) bool { return id == "AAA" }, func(from string) { claims = append(claims, from) })
			_, err := x.Write(t.Context(), rows[1:])
			if follows := o.Namespace == "notifier"; follows != (err == nil) || follows != (len(claims) == 1) {
				t.Errorf("%+v: %v, claims %v", o, err, claims)
			}
		}
		if got := strings.Join(all(t, belongs(t, url, Owner{"notifier", "BBB"}), Query{Limit: 10}), " "); got != "2/1 1/1" {
			t.Errorf("rows: %s", got)
		}
		if _, err := d.Write(t.Context(), rowsOf(BodiesKeep, ended(3, nil))); !errors.Is(err, ErrForeign) {
			t.Errorf("the lost owner: %v", err)
		}
		if was, ok, err := d.Replay(t.Context(), r.ID); err == nil && ok && was.State != ReplayFailed {
			t.Errorf("%+v, %v, %v", was, ok, err)
		}
	})
}

// Regression test: only the instances that had seen the loss could take the history over; after a restart of all, an
// operator had to.
func TestHistoryFollowsServiceWhoseInstancesHaveRestarted(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := belongs(t, url, Owner{"notifier", "AAA"})
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil), ended(3, nil))
		write(t, d, rows[:1])
		mark := func(namespace, was, now string) {
			t.Helper()
			if err := d.MarkLost(t.Context(), namespace, was, now); err != nil {
				t.Fatal(err)
			}
		}
		begin := func(o Owner, row Row) (claims []string, err error) {
			x := belongs(t, url, o)
			x.FollowLost(func(string) bool { return false }, func(from string) { claims = append(claims, from) })
			_, err = x.Write(t.Context(), []Row{row})
			return claims, err
		}
		refused := func(o Owner) {
			t.Helper()
			if claims, err := begin(o, rows[1]); !errors.Is(err, ErrForeign) || len(claims) > 0 {
				t.Errorf("%+v: %v, claims %v", o, err, claims)
			}
		}

		refused(Owner{"notifier", "BBB"})
		mark("notifier", "AAA", "BBB")
		mark("notifier", "BBB", "AAA") // the data return
		refused(Owner{"notifier", "BBB"})
		mark("notifier", "EEE", "BBB") // other data
		mark("staging", "AAA", "BBB")
		refused(Owner{"notifier", "BBB"})

		mark("notifier", "AAA", "BBB")
		mark("notifier", "BBB", "CCC") // the new data are lost too
		for _, o := range []Owner{{"notifier", "BBB"}, {"staging", "CCC"}, {"notifier", "DDD"}} {
			refused(o)
		}
		if claims, err := begin(Owner{"notifier", "CCC"}, rows[1]); err != nil || len(claims) != 1 || claims[0] != "AAA" {
			t.Errorf("%v, claims %v", err, claims)
		}
		mark("notifier", "BBB", "CCC") // another instance reports the loss late
		if has, _, err := d.Owner(t.Context()); err != nil || has.ID != "CCC" {
			t.Errorf("%+v, %v", has, err)
		}
		refused(Owner{"notifier", "AAA"})
	})
}

// add stores a replay of all delivered notices.
func add(t *testing.T, d *DB, r *Replay) (n int, err error) {
	t.Helper()
	var list []Choice
	if err := d.Choose(t.Context(), r, func(_ *Row, c Choice) error { list = append(list, c); return nil }); err != nil {
		return 0, err
	}
	return len(list), d.AddReplay(t.Context(), r, list)
}

// askedFor is a replay of delivered notices.
func askedFor(change func(*Replay)) *Replay {
	r := &Replay{ID: NewReplayID(), ReplayAbout: ReplayAbout{Outcomes: []notice.Ending{notice.EndDelivered}, Since: noon,
		Until: noon.AddDate(0, 0, 1), Rate: 50, Shards: 1}}
	if change != nil {
		change(r)
	}
	return r
}

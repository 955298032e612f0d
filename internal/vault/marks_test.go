package vault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// setField sets a field in all shards.
func setField(t *testing.T, srv *testkit.Redis, a instance, name, value string) {
	t.Helper()
	for place := range a.store.Space().Places() {
		if err := srv.Client().HSet(t.Context(), a.store.Space().Seals(place), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func lifts(t *testing.T, a instance) {
	t.Helper()
	if _, err := a.vault.Lift(t.Context(), merchant); err != nil {
		t.Fatal(err)
	}
}

// A history from before the lift has the mark again, as has an instance that read the marks before the lift.
func TestRecallLeavesKeysOfAfterALift(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 2)
	list := keysIn(a)
	scheduled(t, a, request("shop:order:paid:O1"))
	old := found(t, a, "shop:order:paid:O1")
	r := &records{marks: map[string]string{}}
	at := r.forget(t, a)
	lifts(t, a)
	for _, key := range list {
		scheduled(t, a, request(key))
	}
	reshard(t, a, 4) // the new shards have no time of the lift

	recall(t, a, r, 1) // they have no marks of the old keys either
	for _, key := range list {
		if err := opens(t.Context(), a, found(t, a, key)); err != nil {
			t.Errorf("%s of after the lift: %v", key, err)
		}
	}
	for shard := range 4 {
		if err := vault.Create(t.Context(), a.vault, shard, merchant); err != nil {
			t.Errorf("shard %d refuses keys after the lift: %v", shard, err)
		}
	}
	gone(t, opens(t.Context(), a, old), at)
}

// A failover may lose the last writes of one shard only.
func TestRecallFindsAShardThatHasLostItsMarks(t *testing.T) {
	for lost := range 3 {
		srv := testkit.SharedRedis(t)
		a := startSharded(t, srv, 3)
		list := keysIn(a)
		for _, key := range list {
			scheduled(t, a, request(key))
		}
		r := &records{marks: map[string]string{}}
		recall(t, a, r, 0)
		name := a.store.Space().Seals(lost)
		before := sealsOf(t, srv, lost)
		at := r.forget(t, a)
		recall(t, a, r, 0)
		if err := srv.Client().Del(t.Context(), name).Err(); err != nil {
			t.Fatal(err)
		}
		if err := srv.Client().HSet(t.Context(), name, before).Err(); err != nil {
			t.Fatal(err)
		}

		recall(t, a, r, 1)
		for _, key := range list {
			gone(t, opens(t.Context(), a, found(t, a, key)), at)
		}
		lifts(t, a)
		r.lift()
		recall(t, a, r, 0)
	}
}

// The time of the lift may be later than Redis's clock, after a failover to a node whose clock is behind.
func TestForgetAfterALiftMarksAllShards(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	scheduled(t, a, request("shop:order:paid:O1"))
	forget(t, a)
	lifts(t, a)
	setField(t, srv, a, "lifted:"+string(merchant), fmt.Sprint(time.Now().Add(30*time.Second).UnixMilli()))
	for _, key := range keysIn(a) {
		scheduled(t, a, request(key))
	}

	forget(t, a)
	for shard := range 3 {
		seals := sealsOf(t, srv, shard)
		if seals[vault.Mark(string(merchant))] == "" || seals["lifted:"+string(merchant)] != "" {
			t.Errorf("shard %d has %q", shard, seals)
		}
	}
	b := other(t, a, seal.PerAudience, 2)
	if err := vault.Copy(t.Context(), a.store.Wire(), b.store.Wire()); err != nil {
		t.Fatal(err)
	}
	for _, x := range []instance{a, b} {
		for shard := range x.store.Space().Places() {
			if err := vault.Create(t.Context(), x.vault, shard, merchant); vault.ForgottenAt(err).IsZero() {
				t.Errorf("shard %d stores keys of a forgotten subject: %v", shard, err)
			}
		}
	}
}

// A lift may come in the millisecond of the forget, or by a clock that is behind.
func TestLiftIsLaterThanItsMark(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 2)
	scheduled(t, a, request("shop:order:paid:O1"))
	r := &records{marks: map[string]string{}}
	r.forget(t, a)
	later := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
	setField(t, srv, a, vault.Mark(string(merchant)), later)
	r.marks[vault.Mark(string(merchant))] = later
	lifts(t, a)
	scheduled(t, a, request("shop:order:paid:O2"))

	recall(t, a, r, 0)
	if err := opens(t.Context(), a, found(t, a, "shop:order:paid:O2")); err != nil {
		t.Error("a notice of after the lift:", err)
	}
}

// The number of commands does not grow with the square of the subjects.
func TestManySubjectsAreForgottenAgainAtOnce(t *testing.T) {
	srv := testkit.StartRedis(t)
	a := startSharded(t, srv, 2)
	b := other(t, a, seal.PerAudience, 2)
	const n = 1500
	r := &records{marks: map[string]string{}}
	fields := map[string]string{}
	for i := range n {
		of := fmt.Sprintf("audience:m%d", i)
		r.marks[vault.Mark(of)] = "1700000000000"
		fields[seal.NewDataKey().ID] = of + " w1:k:" + strings.Repeat("x", 100)
	}
	for name, value := range fields {
		if err := srv.Client().HSet(t.Context(), a.store.Space().Seals(len(name)%2), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	count := func(f func()) int {
		before := commands(t, srv)
		f()
		return commands(t, srv) - before
	}

	if c := count(func() { recall(t, a, r, n) }); c > 200 {
		t.Errorf("a recall of %d subjects took %d commands", n, c)
	}
	for shard := range 2 {
		seals := sealsOf(t, srv, shard)
		if len(seals) != 2*n+1 {
			t.Errorf("shard %d has %d fields, want the marks of %d subjects and their keys", shard, len(seals), n)
		}
	}
	if err := vault.Copy(t.Context(), a.store.Wire(), b.store.Wire()); err != nil {
		t.Fatal(err)
	}
	if c := count(func() {
		if err := vault.Copy(t.Context(), b.store.Wire(), a.store.Wire()); err != nil {
			t.Fatal(err)
		}
	}); c > 200 {
		t.Errorf("a copy of %d subjects took %d commands", n, c)
	}
}

// commands returns how many reads and scripts of the keys a Redis has served.
func commands(t *testing.T, srv *testkit.Redis) (n int) {
	t.Helper()
	for line := range strings.Lines(srv.Client().Info(t.Context(), "commandstats").Val()) {
		for _, name := range []string{"hscan", "evalsha", "hmget"} {
			if text, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls="); ok {
				var calls int
				if _, err := fmt.Sscan(strings.Split(text, ",")[0], &calls); err != nil {
					t.Fatal(err)
				}
				n += calls
			}
		}
	}
	return n
}

// A program that can write Redis may spoil times; a forget completes all the same.
func TestSpoiltTimesDoNotKeepASubject(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	for _, spoilt := range []string{"", "soon", "-5", "1e400", "9999999999999999999999", "0x10"} {
		for _, name := range []string{"lifted:" + string(merchant), vault.Mark(string(merchant))} {
			lifts(t, a)
			for _, key := range keysIn(a) {
				scheduled(t, a, request(key+spoilt))
			}
			setField(t, srv, a, name, spoilt)
			if _, err := a.vault.ForgetSubject(t.Context(), merchant); err != nil {
				t.Errorf("%s %q: %v", name, spoilt, err)
			}
			for shard := range 3 {
				for left := range sealsOf(t, srv, shard) {
					if !strings.HasPrefix(left, "forgotten:") {
						t.Errorf("%s %q: shard %d has %s", name, spoilt, shard, left)
					}
				}
			}
		}
	}
}

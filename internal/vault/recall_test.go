package vault_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// records are the marks that an archive has recorded.
type records struct {
	marks map[string]string
	err   error
	pages int
}

func (r *records) MarksState(context.Context) (string, error) {
	names := slices.Sorted(maps.Keys(r.marks))
	for i, name := range names {
		names[i] = name + "=" + r.marks[name]
	}
	return strings.Join(names, "\n"), r.err
}

func (r *records) MarkPage(_ context.Context, after string, n int) (page []vault.Field, err error) {
	r.pages++
	for _, name := range slices.Sorted(maps.Keys(r.marks)) {
		if name > after && len(page) < n {
			page = append(page, vault.Field{Name: name, Value: r.marks[name]})
		}
	}
	return page, r.err
}

func (r *records) TakeMarks(_ context.Context, list []vault.Field, dryRun bool) (int, error) {
	subjects := map[seal.Subject]bool{}
	for _, f := range list {
		if r.marks[f.Name] == "" {
			of, _, _ := vault.ParseMark(f)
			subjects[of] = true
			if !dryRun {
				r.marks[f.Name] = f.Value
			}
		}
	}
	return len(subjects), r.err
}

// add records that the test's subject was forgotten, as the history does.
func (r *records) add(f vault.Forgotten) {
	ms := strconv.FormatInt(f.At.UnixMilli(), 10)
	r.marks[vault.Mark(string(merchant))] = ms
	for _, id := range f.IDs {
		r.marks[vault.Mark(id)] = ms + " " + string(merchant)
	}
}

// lift records that the subject was lifted.
func (r *records) lift() { delete(r.marks, vault.Mark(string(merchant))) }

// backup returns a function that restores the keys of all shards.
func backup(t *testing.T, srv *testkit.Redis, a instance) (restore func()) {
	t.Helper()
	all := map[int]map[string]string{}
	for place := range a.store.Space().Places() {
		all[place] = sealsOf(t, srv, place)
	}
	return func() {
		for place, seals := range all {
			name := a.store.Space().Seals(place)
			if err := srv.Client().Del(t.Context(), name).Err(); err != nil {
				t.Fatal(err)
			}
			a.vault.Forget(place)
			if len(seals) == 0 {
				continue
			}
			if err := srv.Client().HSet(t.Context(), name, seals).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func recall(t *testing.T, a instance, r *records, want int) {
	t.Helper()
	if got, err := a.vault.Recall(t.Context(), r); err != nil || got.InRedis != want || got.InArchive != 0 {
		t.Fatalf("forgot %+v subjects again, %v; want %d in Redis", got, err, want)
	}
}

// forget forgets the test's subject, and records it.
func (r *records) forget(t *testing.T, a instance) time.Time {
	t.Helper()
	f, err := a.vault.ForgetSubject(t.Context(), merchant)
	if err != nil || f.Deleted == 0 || len(f.IDs) == 0 {
		t.Fatal(f, err)
	}
	r.add(f)
	return f.At
}

func TestRestoredKeysOfForgottenSubjectsAreDeletedAgain(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	list := keysIn(a)
	for _, key := range list {
		scheduled(t, a, request(key))
	}
	r := &records{marks: map[string]string{}}
	recall(t, a, r, 0)
	restore := backup(t, srv, a)
	at := r.forget(t, a)
	recall(t, a, r, 0) // Redis has the marks
	restore()
	for _, key := range list {
		if err := opens(t.Context(), a, found(t, a, key)); err != nil {
			t.Fatal("the restored keys open:", err)
		}
	}

	if got, err := vault.Recall(t.Context(), a.store.Wire(), r, true); err != nil || got != (vault.Recalled{InRedis: 1}) {
		t.Errorf("a dry run counts %+v, %v", got, err)
	}
	if err := opens(t.Context(), a, found(t, a, list[0])); err != nil {
		t.Error("after a dry run:", err)
	}
	recall(t, a, r, 1)
	for _, key := range list {
		gone(t, opens(t.Context(), a, found(t, a, key)), at)
	}
	_, err := a.calls.Schedule(t.Context(), request("shop:order:paid:New"))
	gone(t, err, at)

	r.pages = 0
	recall(t, a, r, 0)
	if r.pages > 0 {
		t.Errorf("%d pages read, although nothing has changed", r.pages)
	}
}

// An archive that was restored from a backup lacks the marks of Redis. A forget that has not reached the archive is one of these.
func TestArchiveTakesTheMarksOfRedis(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	for _, key := range keysIn(a) {
		scheduled(t, a, request(key))
	}
	r := &records{marks: map[string]string{}}
	recall(t, a, r, 0)
	took := func(want vault.Recalled, dryRun bool) {
		t.Helper()
		if got, err := vault.Recall(t.Context(), a.store.Wire(), r, dryRun); err != nil || got != want {
			t.Fatalf("forgot %+v subjects again, %v; want %+v", got, err, want)
		}
	}
	f, err := a.vault.ForgetSubject(t.Context(), merchant)
	if err != nil || len(f.IDs) != 1 {
		t.Fatal(f, err)
	}
	took(vault.Recalled{InArchive: 1}, true)
	took(vault.Recalled{InArchive: 1}, false)
	want := &records{marks: map[string]string{}}
	if want.add(f); !maps.Equal(r.marks, want.marks) {
		t.Errorf("the archive has %q, want %q", r.marks, want.marks)
	}
	r.pages = 0
	if recall(t, a, r, 0); r.pages > 0 {
		t.Errorf("%d pages read, although nothing has changed", r.pages)
	}

	// After a lift, the archive gets the marks of the data keys only.
	lifts(t, a)
	clear(r.marks)
	took(vault.Recalled{InArchive: 1}, false)
	want.lift()
	if !maps.Equal(r.marks, want.marks) {
		t.Errorf("after a lift the archive has %q, want %q", r.marks, want.marks)
	}
}

// A lost Redis has no marks.
func TestForgottenSubjectsStaySoAfterALossOfRedis(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	scheduled(t, a, request("shop:order:paid:O1"))
	r := &records{marks: map[string]string{}}
	at := r.forget(t, a)
	for place := range 3 {
		if err := srv.Client().Del(t.Context(), a.store.Space().Seals(place)).Err(); err != nil {
			t.Fatal(err)
		}
	}

	recall(t, a, r, 1)
	for _, key := range keysIn(a) {
		_, err := a.calls.Schedule(t.Context(), request(key))
		gone(t, err, at)
	}
}

// The subject may have notices again, but not with the keys of the backup.
func TestRestoredKeysOfALiftedSubjectAreDeleted(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	scheduled(t, a, request("shop:order:paid:O1"))
	r := &records{marks: map[string]string{}}
	restore := backup(t, srv, a)
	at := r.forget(t, a)
	r.lift()
	if _, err := a.vault.Lift(t.Context(), merchant); err != nil {
		t.Fatal(err)
	}
	restore()

	recall(t, a, r, 1)
	gone(t, opens(t.Context(), a, found(t, a, "shop:order:paid:O1")), at)
	scheduled(t, a, request("shop:order:paid:O2"))
	if err := opens(t.Context(), a, found(t, a, "shop:order:paid:O2")); err != nil {
		t.Error("a new notice:", err)
	}
	// Newer keys stay if the marks of the old ones are set again.
	for place := range 3 {
		if err := srv.Client().HDel(t.Context(), a.store.Space().Seals(place), slices.Collect(maps.Keys(r.marks))...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.marks[vault.Mark(seal.NewDataKey().ID)] = "1 route:shop:order"
	recall(t, a, r, 2)
	if err := opens(t.Context(), a, found(t, a, "shop:order:paid:O2")); err != nil {
		t.Error("a new notice after another recall:", err)
	}
}

// A lift may come between the reading of the marks and their writing.
func TestRecallDoesNotForgetASubjectThatWasLiftedMeanwhile(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	scheduled(t, a, request("shop:order:paid:O1"))
	r := &records{marks: map[string]string{}}
	at := r.forget(t, a)
	if _, err := a.vault.Lift(t.Context(), merchant); err != nil {
		t.Fatal(err)
	}
	for place := range 3 { // as if the lift had come later than the test's clock can tell
		name := a.store.Space().Seals(place)
		if err := srv.Client().HSet(t.Context(), name, "lifted:"+string(merchant), at.UnixMilli()+1).Err(); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := a.vault.Recall(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	scheduled(t, a, request("shop:order:paid:O2"))
	gone(t, opens(t.Context(), a, found(t, a, "shop:order:paid:O1")), at)
}

func TestRecallNamesAnArchiveThatDoesNotAnswer(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 1)
	r := &records{marks: map[string]string{}, err: errors.New("down")}
	if got, err := a.vault.Recall(t.Context(), r); got != (vault.Recalled{}) || !errors.Is(err, r.err) {
		t.Error(got, err)
	}
}

package receivers

import (
	"slices"
	"testing"
	"time"
)

func TestListBeginsWithWhatHurtsMost(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	want := []Listed{
		{Name: "days:443", Since: ago(30 * time.Hour), Waiting: 1},
		{Name: "hours-most:443", Since: ago(2 * time.Hour), Waiting: 1200},
		{Name: "hours-less:443", Since: ago(3 * time.Hour), Waiting: 90},
		{Name: "hours-none:443", Since: ago(4 * time.Hour)},
		{Name: "hours-none-later:443", Since: ago(3 * time.Hour)},
		{Name: "long:443", Since: ago(20 * time.Minute), Waiting: 5},
		{Name: "fresh:443", Since: ago(time.Minute), Waiting: 5000},
		{Name: "broken:443", Broken: true, Waiting: 7},
		{Name: "limited", Limited: true},
		{Name: "paused", Paused: true, LastAttempt: ago(time.Hour)},
		{Name: "recovered:443", LastAttempt: ago(time.Hour)},
		{Name: "a-called:443", Tie: "app1"},
		{Name: "a-called:443", Tie: "app2"},
		{Name: "called:443"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b Listed) int {
		if a.Position(now) < b.Position(now) {
			return -1
		}
		return 1
	})
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	list := []Listed{{Name: "a.example:443", Since: time.Now(), Reason: "timeout"}, {Name: "b.example:443", Broken: true},
		{Name: "b.other:443", Paused: true, Since: time.Now(), Reason: "dns"}, {Name: "m17", Limited: true},
		{Name: "well:443", LastAttempt: time.Now()}, {Name: "called:443"}}
	for _, c := range []struct {
		s    Selection
		want []int
	}{
		{Selection{}, []int{0, 1, 2, 3, 4, 5}}, {Selection{State: StateFailing}, []int{0, 1, 2}}, {Selection{State: StatePaused}, []int{2}},
		{Selection{State: StateLimited}, []int{3}}, {Selection{State: StateRecovered}, []int{4}}, {Selection{Contains: "Example"}, []int{0, 1}},
		{Selection{Reason: "dns"}, []int{2}}, {Selection{Reason: "dns", Contains: "a.ex"}, nil}, {Selection{State: "none"}, nil},
	} {
		var got []int
		for i := range list {
			if c.s.Has(&list[i]) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
}

package keys

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestSlot(t *testing.T) {
	// As CLUSTER KEYSLOT answers.
	for key, want := range map[string]int{"123456789": 12739, "foo": 12182, "0": 13907, "{0}list": 13907, "a{0}b{1}": 13907,
		"{}x": Slot("{}x"), "": 0} {
		if got := Slot(key); got != want {
			t.Errorf("%q is in slot %d, want %d", key, got, want)
		}
	}
}

func TestTagIn(t *testing.T) {
	longest := 0
	for slot := range Slots {
		tag := TagIn(slot)
		if Slot("x{"+tag+"}y") != slot {
			t.Fatalf("tag %s is not in slot %d", tag, slot)
		}
		n, err := strconv.Atoi(tag)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, n)
	}
	if longest > 1_000_000 {
		t.Errorf("the largest number is %d", longest)
	}
}

func TestAPushsMarkerLiesBesideItsList(t *testing.T) {
	s := Space{Namespace: "n"}
	for _, target := range []string{"todo", "{a}todo", "x{a}y{b}", "a}b", "{}a", "a{b", "{", "}", "a b", "ü"} {
		marker := s.Pushed(target, "msg_1:1:0")
		if Slot(marker) != Slot(target) {
			t.Errorf("%q: %q is in slot %d, want %d", target, marker, Slot(marker), Slot(target))
		}
		if Valid(marker) {
			t.Errorf("%q could be a notice", marker)
		}
	}
	if got := s.Pushed("todo", "msg_1:1:0"); got != "n:pushed:{todo}:msg_1:1:0" {
		t.Error(got)
	}
}

// On masters with as many slots each the shards are as many, give or take one.
func TestTagsSpreadOverTheMasters(t *testing.T) {
	for masters := 1; masters <= 7; masters++ {
		for _, n := range []int{2, 3, 4, 6, 7, 8, 12, 16, 64, 100, 1024} {
			tags := SpreadTags(n)
			count, seen := make([]int, masters), map[string]bool{}
			for _, tag := range tags {
				count[Slot("x{"+tag+"}")*masters/Slots]++
				seen[tag] = true
			}
			if len(seen) != n || slices.Max(count)-slices.Min(count) > 1 {
				t.Errorf("%d shards on %d masters: %v, %d tags", n, masters, count, len(seen))
			}
			if got, err := ParseTags(strings.Join(tags, ","), n); err != nil || !slices.Equal(got, tags) {
				t.Errorf("%v: %v", tags, err)
			}
		}
	}
	if SpreadTags(1) != nil {
		t.Error("one shard has a tag")
	}
	s := Space{Namespace: "n", Shards: 2, Tags: []string{"7", "9"}}
	if s.Base(0) != "n:{7}:" || s.Base(1) != "n:{9}:" || s.Shadow(Partition{"p", 1}) != "n:{9}:shadow:p" ||
		s.Ended(0) != "n:{7}:ended" || s.History(0) != "n:{7}:history" {
		t.Error(s.Base(0), s.Base(1))
	}
}

package layout

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// settledOnly are scripts that remove settled notices only. Those are in no sequence.
var settledOnly = []string{"bury.lua", "trim.lua", "unbury.lua"}

// Every script that removes a notice from a shadow or from the dead letters, or its record, has the code
// for sequences, and uses it to let the notice leave.
func TestScriptsThatRemoveNoticesKeepSequences(t *testing.T) {
	files, err := filepath.Glob("../*/lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	removes := regexp.MustCompile(`'(ZREM|HDEL|ZREMRANGEBY\w+|ZPOPMIN)', (KEYS\[|base \.\. '(shadow|dead|records))`)
	leaves := regexp.MustCompile(`\.(leave|put|join|keep)\(key[,)]`)
	n := 0
	for _, f := range append(files, "../../deploy/schedule.lua") {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text, name := string(raw), filepath.Base(f)
		states := strings.Contains(text, "1 shadow  2 records") || strings.Contains(text, ":shadow:<prefix>") || name == "replay.lua"
		if !states || !removes.MatchString(text) || slices.Contains(settledOnly, name) {
			continue
		}
		n++
		if !strings.Contains(text, "order(KEYS[") || !leaves.MatchString(text) || !strings.Contains(text, ".finish()") {
			t.Errorf("%s removes notices without leaving their sequences", f)
		}
	}
	if n < 9 {
		t.Errorf("only %d scripts remove notices", n)
	}
}

func TestOrderedRoutesAreForgotten(t *testing.T) {
	s, srv := open(t, Options{})
	ctx, c := t.Context(), srv.Client()
	check := func(want ...string) {
		t.Helper()
		for _, name := range []string{s.space.Ordered(), s.space.ShardOrdered(0)} {
			got := c.SMembers(ctx, name).Val()
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	if err := s.AddOrdered(ctx, []string{"app1", "app1!", "app2"}); err != nil {
		t.Fatal(err)
	}
	check("app1", "app1!", "app2")
	c.ZAdd(ctx, s.space.Order(keys.Partition{Prefix: "app2"}), redis.Z{Member: "x"})
	if err := s.ForgetOrdered(ctx, []string{"app1"}); err != nil {
		t.Fatal(err)
	}
	check("app1", "app2")
	c.Del(ctx, s.space.Order(keys.Partition{Prefix: "app2"}))
	if err := s.ForgetOrdered(ctx, nil); err != nil {
		t.Fatal(err)
	}
	check()
}

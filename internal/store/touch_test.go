package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// Each subscriber receives the instance of a group just before the group's events.
func TestGroupsAreToldRightBeforeTheirEvents(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig("notify-keyspace-events Ex"))
	s := on(t, srv.URL(), srv.Namespace())
	ctx, c := t.Context(), srv.Client()
	ps := c.Subscribe(ctx, s.space.Wake(), keys.Expired(0))
	defer func() { _ = ps.Close() }()
	for range 2 {
		if _, err := ps.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() string {
		m, err := ps.ReceiveTimeout(ctx, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m.(*redis.Message).Payload
	}
	for try := 0; ; try++ {
		list := []TouchGroup{{For: "aaaaaaaaaaaa"}, {For: "bbbbbbbbbbbb"}}
		var want []string
		due := time.Now().Add(20 * time.Millisecond).UnixMilli()
		for g := range list {
			for k := range 3 {
				list[g].Keys = append(list[g].Keys, fmt.Sprintf("app1:a:b:%d-%d-%d", try, g, k))
				if err := c.Do(ctx, "SET", list[g].Keys[k], "1", "PXAT", due).Err(); err != nil {
					t.Fatal(err)
				}
			}
			want = append(append(want, keys.ForText(list[g].For, 3, "app1")), list[g].Keys...)
		}
		testkit.Until(t, "all are due", func() bool { return c.Time(ctx).Val().UnixMilli() > due })
		if left, err := s.Timers.TouchGroups(ctx, "app1", list); err != nil || left != 0 {
			t.Fatalf("%d left, %v", left, err)
		}
		var got []string
		for range want {
			got = append(got, hear())
		}
		if slices.Equal(got, want) {
			return
		}
		// Redis may have found some by itself before: once more.
		if try == 20 {
			t.Fatalf("heard %q\nwant  %q", got, want)
		}
	}
}

func TestTimersExpireBeforeTheDueTime(t *testing.T) {
	s, srv := open(t)
	r := s.put(t, Request{Key: "app1:a:b:1", Delay: time.Hour})
	at, err := srv.Client().PExpireTime(t.Context(), "app1:a:b:1").Result()
	if err != nil || at.Milliseconds() != r.Due.UnixMilli()-1 {
		t.Errorf("the timer expires at %d, want %d - 1; %v", at.Milliseconds(), r.Due.UnixMilli(), err)
	}
	s.put(t, Request{Key: "app1:a:b:2"})
	if n := srv.Client().Exists(t.Context(), "app1:a:b:2").Val(); n != 0 {
		t.Error("a notice that is due at once has a timer")
	}
}

package store

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
)

func TestAStepIsNeverShort(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	for i := range 50 {
		key := fmt.Sprintf("app1:m:t:%d", i)
		s.put(t, Request{Key: key, Content: notice.Content{Body: []byte("x")}})
		c := s.take(t, key, "t")
		before, err := srv.Client().Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		out := s.end(t, Settlement{Claim: c, Ending: EndRetry, After: time.Second})
		over := out.Due.Sub(before.Add(time.Second))
		if over < 0 || over > time.Second {
			t.Fatalf("the next attempt is due %s after its step", over)
		}
		if f, err := s.Find(t.Context(), prefix, key); err != nil || !f.Due.Equal(out.Due) {
			t.Fatalf("%+v, %v; want due %s", f, err, out.Due)
		}
	}
}

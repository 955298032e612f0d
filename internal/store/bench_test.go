package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// BenchmarkScripts is each script of a notice's way at three batch sizes, with
// what Redis itself says a notice takes in it: the rest is the way there.
func BenchmarkScripts(b *testing.B) {
	for _, size := range []int{1, 32, 128} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			srv := testkit.StartRedis(b)
			s := on(b, srv.URL(), "notifier")
			spent := func() time.Duration { return scriptTime(b, srv) }
			body := []byte(`{"order":"` + strings.Repeat("x", 188) + `"}`)
			at := time.Now().Add(24 * time.Hour)
			var timed, untimed, claim, settle time.Duration
			n := 0
			for b.Loop() {
				reqs := make([]Request, size)
				for i := range reqs {
					reqs[i] = Request{Key: fmt.Sprintf("app1:later:notice:%013d", n+i), Due: at.Add(time.Duration(7*(n+i)) * time.Millisecond),
						Content: notice.Content{Body: body}}
				}
				t0 := spent()
				_, err1 := s.Schedule(b.Context(), partition, reqs)
				for i := range reqs {
					reqs[i].Key, reqs[i].Due = fmt.Sprintf("app1:trans:notice:%013d", n+i), time.Time{}
				}
				t1 := spent()
				_, err2 := s.Schedule(b.Context(), partition, reqs)
				t2 := spent()
				c, err3 := s.Sweep(b.Context(), partition, Lease{"bench", lease}, SweepOptions{Limit: size})
				t3 := spent()
				list := make([]Settlement, len(c.Won))
				for i := range c.Won {
					c.Won[i].Add(notice.Attempt{Number: 1, At: at, Duration: time.Millisecond, Status: 200})
					list[i] = Settlement{Claim: c.Won[i], Ending: EndDelivered}
				}
				_, err4 := s.Settle(b.Context(), partition, list)
				t4 := spent()
				if err1 != nil || err2 != nil || err3 != nil || err4 != nil || len(c.Won) != size {
					b.Fatal(err1, err2, err3, err4, len(c.Won))
				}
				timed, untimed, claim, settle = timed+t1-t0, untimed+t2-t1, claim+t3-t2, settle+t4-t3
				n += size
			}
			b.ReportMetric(0, "ns/op")
			for name, d := range map[string]time.Duration{"schedule": timed, "now": untimed, "claim": claim, "settle": settle} {
				b.ReportMetric(float64(d.Nanoseconds())/float64(n), name+"-ns")
			}
		})
	}
}

// scriptTime is the time that Redis has spent in scripts.
func scriptTime(b *testing.B, srv *testkit.Redis) (d time.Duration) {
	b.Helper()
	info := srv.Client().Info(context.Background(), "commandstats").Val()
	for line := range strings.Lines(info) {
		if !strings.HasPrefix(line, "cmdstat_evalsha") {
			continue
		}
		_, v, _ := strings.Cut(line, "usec=")
		v, _, _ = strings.Cut(v, ",")
		us, _ := strconv.ParseInt(v, 10, 64)
		d += time.Duration(us) * time.Microsecond
	}
	return d
}

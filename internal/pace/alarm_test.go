package pace

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAlarms(t *testing.T) {
	for name, kind := range map[string]Kind{"system": Precise, "portable": Portable} {
		t.Run(name, func(t *testing.T) {
			a := kind.New()
			defer a.Close()
			for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 3 * time.Millisecond} {
				from := time.Now()
				a.Set(d)
				testkit.Next(t, "the alarm after "+d.String(), a.C())
				a.Rest()
				if took := time.Since(from); took < d {
					t.Errorf("fired %s before its time", d-took)
				}
			}
			a.Set(time.Hour)
			a.Set(time.Millisecond)
			testkit.Next(t, "the later Set replaces the earlier", a.C())
		})
	}
}

// The timer of a long wait is set earlier than the alarm. The rest is waited for, also while other alarms fire all the time, and
// a later Set replaces an earlier one.
func TestLongWaitsAreNotTooShort(t *testing.T) {
	for name, others := range map[string]int{"alone": 0, "beside another": 1} {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			var wg sync.WaitGroup
			defer wg.Wait()
			defer close(done)
			for range others {
				wg.Go(func() { fire(done) })
			}
			a := NewAlarm()
			defer a.Close()
			for i := range 20 {
				d := 16*time.Millisecond + time.Duration(i)*100*time.Microsecond
				from := time.Now()
				a.Set(time.Minute)
				a.Set(d)
				testkit.Next(t, "the alarm after "+d.String(), a.C())
				a.Rest()
				if took := time.Since(from); took < d {
					t.Errorf("fired %s before its time", d-took)
				}
			}
		})
	}
}

// fire lets an alarm fire until done is closed.
func fire(done <-chan struct{}) {
	a := NewAlarm()
	defer a.Close()
	for {
		a.Set(15 * time.Millisecond)
		select {
		case <-a.C():
			a.Rest()
		case <-done:
			return
		}
	}
}

func BenchmarkSetAndWait(b *testing.B) {
	for _, d := range []time.Duration{200 * time.Microsecond, 20 * time.Millisecond} {
		b.Run(d.String(), func(b *testing.B) {
			a := NewAlarm()
			defer a.Close()
			var over time.Duration
			for range b.N {
				from := time.Now()
				a.Set(d)
				<-a.C()
				a.Rest()
				over += time.Since(from) - d
			}
			b.ReportMetric(float64(over.Nanoseconds())/float64(b.N), "ns-late/op")
		})
	}
}

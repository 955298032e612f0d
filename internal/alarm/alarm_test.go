package alarm

import (
	"testing"
	"time"

	"go.uber.org/goleak"
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
				select {
				case <-a.C():
				case <-time.After(10 * time.Second):
					t.Fatalf("no alarm after %s", d)
				}
				if took := time.Since(from); took < d {
					t.Errorf("fired %s before its time", d-took)
				}
			}
			a.Set(time.Hour)
			a.Set(time.Millisecond)
			select {
			case <-a.C():
			case <-time.After(10 * time.Second):
				t.Fatal("the later Set did not replace the earlier")
			}
		})
	}
}

func BenchmarkSetAndWait(b *testing.B) {
	a := New()
	defer a.Close()
	var over time.Duration
	for range b.N {
		from := time.Now()
		a.Set(200 * time.Microsecond)
		<-a.C()
		over += time.Since(from) - 200*time.Microsecond
	}
	b.ReportMetric(float64(over.Nanoseconds())/float64(b.N), "ns-late/op")
}

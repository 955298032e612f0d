package testkit

import (
	"strconv"
	"syscall"
	"testing"
	"time"
)

// CPU returns the processor time that this process and Redis have used.
func CPU(t testing.TB, srv *Redis) (own, redis time.Duration) {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}

	info := srv.Client().InfoMap(t.Context(), "cpu").Val()["CPU"]
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, err := strconv.ParseFloat(info[name], 64)
		if err != nil {
			t.Fatalf("%s in %q: %v", name, info, err)
		}

		redis += time.Duration(s * float64(time.Second))
	}

	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), redis
}

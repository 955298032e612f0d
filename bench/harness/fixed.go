package harness

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"notifier/bench/server"
	"notifier/internal/pace"
)

// The fixed workload: two to five seconds each.
const (
	fixedSets    = 200_000
	fixedClients = 50
	fixedPosts   = 30_000
	fixedCallers = 64
	wakesOf10    = 50   // one each 100 ms
	wakesOf1000  = 3000 // one each ms
)

// Fixed are the rates of a workload that depends on the machine only. A run measures it first and last, so
// that its absolute rates can be compared with those of another machine or hour.
type Fixed struct {
	At   time.Time
	Set  float64 // SET a second by redis-benchmark with 50 connections
	HTTP float64 // POST a second by 64 goroutines at a server that answers at once, both in this process
	// ms from the time of a timer to the answer of the second of two PINGs, one after the other. A notice
	// needs as much: one call makes Redis send the expired event, and one claims the notice.
	Wake10, Wake1000 Wake // every 100 ms, every ms
}

// Wake is what a timer and two PINGs take. All are 0 in results of older programs.
type Wake struct {
	Least, Mean, P99 float64 // ms
	CPU              float64 // of Redis, µs a PING
}

// measureFixed runs the fixed workload. dir is an empty directory for its Redis.
func measureFixed(ctx context.Context, dir string) (f Fixed, err error) {
	f.At = time.Now().UTC()
	if err := fixedRedis(ctx, dir, &f); err != nil {
		return f, err
	}

	r, err := server.Receive(func(string) {})
	if err != nil {
		return f, err
	}

	defer r.Stop()
	f.HTTP, err = Bare(ctx, BareSpec{URL: r.URL, Calls: fixedPosts, Callers: fixedCallers})
	return f, err
}

// fixedRedis measures what needs a Redis.
func fixedRedis(ctx context.Context, dir string, f *Fixed) error {
	path, err := server.Find("redis-benchmark")
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o711); err != nil {
		return fmt.Errorf("make a scratch directory: %w", err)
	}

	defer os.RemoveAll(dir)
	redis, err := server.Redis(ctx, dir)
	if err != nil {
		return err
	}

	defer redis.Stop()

	host, port, _ := strings.Cut(redis.Addr, ":")
	out, err := exec.CommandContext(ctx, path, "-h", host, "-p", port, "-t", "set", "-n", strconv.Itoa(fixedSets),
		"-c", strconv.Itoa(fixedClients), "--csv").Output()
	if err != nil {
		return fmt.Errorf("redis-benchmark: %w", err)
	}
	if f.Set, err = setRate(string(out)); err != nil {
		return err
	}
	if f.Wake10, err = wakes(ctx, redis, wakesOf10, 100*time.Millisecond); err != nil {
		return err
	}

	f.Wake1000, err = wakes(ctx, redis, wakesOf1000, time.Millisecond)
	return err
}

// wakes measures n times, once in each interval, the time from when a timer is to fire to the answer of the second PING.
// A late measurement delays the next one, whose time includes that delay, like the lateness of notices in a busy service.
func wakes(ctx context.Context, redis *server.Process, n int, every time.Duration) (Wake, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", redis.Addr)
	if err != nil {
		return Wake{}, err
	}

	defer conn.Close()
	timer := pace.NewAlarm()
	defer timer.Close()

	before, err := server.CPU(redis.PID())
	if err != nil {
		return Wake{}, err
	}

	took := make([]float64, 0, n)
	var sum float64
	answer := make([]byte, len("+PONG\r\n"))
	begin := time.Now()
	for i := range n {
		due := begin.Add(time.Duration(i+1) * every)
		timer.Set(time.Until(due))
		<-timer.C()
		timer.Rest()

		for range 2 {
			if _, err := conn.Write([]byte("PING\r\n")); err != nil {
				return Wake{}, fmt.Errorf("ping: %w", err)
			}
			if _, err := io.ReadFull(conn, answer); err != nil {
				return Wake{}, fmt.Errorf("ping: %w", err)
			}
		}

		ms := float64(time.Since(due)) / float64(time.Millisecond)
		took, sum = append(took, ms), sum+ms
	}

	after, err := server.CPU(redis.PID())
	if err != nil {
		return Wake{}, err
	}

	slices.Sort(took)
	return Wake{took[0], sum / float64(n), Quantile(took, 0.99), float64((after[0] - before[0]).Microseconds()) / float64(2*n)}, nil
}

// setRate reads the rate from what redis-benchmark --csv prints.
func setRate(out string) (float64, error) {
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}

	for _, row := range rows {
		if len(row) > 1 && row[0] == "SET" {
			return strconv.ParseFloat(row[1], 64)
		}
	}

	return 0, fmt.Errorf("redis-benchmark: no line SET in %q", out)
}

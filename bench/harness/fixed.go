package harness

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"notifier/bench/server"
)

// The fixed workload: about two seconds each.
const (
	fixedSets    = 200_000
	fixedClients = 50
	fixedPosts   = 30_000
	fixedCallers = 64
)

// Fixed are the rates of a workload that depends on the machine only. A run measures it first and last, so
// that its absolute rates can be compared with those of another machine or hour.
type Fixed struct {
	At   time.Time
	Set  float64 // SET a second by redis-benchmark with 50 connections
	HTTP float64 // POST a second by 64 goroutines at a server that answers at once, both in this process
}

// measureFixed runs the fixed workload. dir is an empty directory for its Redis.
func measureFixed(ctx context.Context, dir string) (f Fixed, err error) {
	f.At = time.Now().UTC()
	if f.Set, err = fixedRedis(ctx, dir); err != nil {
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

func fixedRedis(ctx context.Context, dir string) (float64, error) {
	path, err := server.Find("redis-benchmark")
	if err != nil {
		return 0, err
	}
	if err := os.Mkdir(dir, 0o711); err != nil {
		return 0, fmt.Errorf("make a scratch directory: %w", err)
	}

	defer os.RemoveAll(dir)
	redis, err := server.Redis(ctx, dir)
	if err != nil {
		return 0, err
	}

	defer redis.Stop()

	host, port, _ := strings.Cut(redis.Addr, ":")
	out, err := exec.CommandContext(ctx, path, "-h", host, "-p", port, "-t", "set", "-n", strconv.Itoa(fixedSets),
		"-c", strconv.Itoa(fixedClients), "--csv").Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}

	return setRate(string(out))
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

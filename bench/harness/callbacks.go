package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// BareSpec is what the bare client loop is told.
type BareSpec struct {
	URL     string
	Calls   int
	Callers int
}

// Bare posts Calls bodies from Callers goroutines and returns the rate: what a
// Go client can do at all, without a queue behind it.
func Bare(ctx context.Context, spec BareSpec) (float64, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: spec.Callers, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	errs := make(chan error, spec.Callers)
	var wg sync.WaitGroup
	start := time.Now()
	for range spec.Callers {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= spec.Calls || ctx.Err() != nil {
					return
				}
				if err := post(ctx, client, spec.URL, n); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-errs:
		return 0, fmt.Errorf("bare loop: %w", err)
	default:
		return float64(spec.Calls) / took.Seconds(), ctx.Err()
	}
}

func post(ctx context.Context, client *http.Client, url string, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(peer.Body(n)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(server.KeyHeader, peer.ID(n))
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// bareProcess runs Bare in a process of its own, as the service is one, and
// returns the rate and the processor time that a call took of both ends.
func bareProcess(ctx context.Context, b *Bench, takes time.Duration) (rate, cpu float64, err error) {
	r, err := server.Receive(func(string) {
		if takes > 0 {
			time.Sleep(takes)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	defer r.Stop()
	spec, err := json.Marshal(BareSpec{URL: r.URL, Calls: b.Size.Calls, Callers: b.Env.Handlers})
	if err != nil {
		return 0, 0, err
	}
	before, err := server.OwnCPU()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, b.Self, "bare", string(spec))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("bare loop: %w", err)
	}
	after, err := server.OwnCPU()
	if err != nil {
		return 0, 0, err
	}
	if err := json.Unmarshal(out, &rate); err != nil {
		return 0, 0, fmt.Errorf("bare loop: %w", err)
	}
	spent := after - before + cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return rate, float64(spent.Microseconds()) / float64(b.Size.Calls), nil
}

// callbackCase drains notices into an HTTP receiver that takes a while for each,
// and sets the rate against the bare loop before and after it.
func callbackCase(ctx context.Context, b *Bench, takes time.Duration) (Values, error) {
	before, cpuBefore, err := bareProcess(ctx, b, takes)
	if err != nil {
		return nil, err
	}
	size := b.Size
	size.Drain, size.DrainMax = size.Calls, max(size.DrainMax, time.Minute)
	with := *b
	with.Size = size
	v, err := drainCase(ctx, &with, takes)
	if err != nil {
		return nil, err
	}
	after, cpuAfter, err := bareProcess(ctx, b, takes)
	if err != nil {
		return nil, err
	}
	v["bare"], v["cpu_bare"] = (before+after)/2, (cpuBefore+cpuAfter)/2
	v["percent"] = 100 * v["rate"] / v["bare"]
	return v, nil
}

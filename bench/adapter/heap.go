package adapter

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// inMemory is a DelayQueue as most languages' libraries have one: a heap by
// due time and a timer for its head.
type inMemory struct {
	served // without a server
	mu     sync.Mutex
	jobs   jobHeap
	wake   chan struct{}
}

func memoryHeap() peer.Entry {
	const one = "it lives in one process"
	return peer.Entry{Info: peer.Info{
		Name: "memory-heap", Title: "DelayQueue in memory", Version: "container/heap",
		Settings: "no server: the floor that any other can only approach", Kind: peer.Pattern,
		Traits: peer.Traits{Crash: "everything", Race: "no second instance possible", Ladder: "by hand",
			Cancel: "in the same process"}, Batch: 128,
		BytesOf: "growth of the process's resident memory", CommandsOf: "there is no server",
		Skip: map[string]string{"crash": "everything is lost: " + one, "race": one},
	}, New: func() peer.Peer { return &inMemory{wake: make(chan struct{}, 1)} }}
}

type jobHeap []peer.Job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, j int) bool { return h[i].Due.Before(h[j].Due) }
func (h jobHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *jobHeap) Push(x any)        { *h = append(*h, x.(peer.Job)) }
func (h *jobHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = peer.Job{}
	*h = old[:len(old)-1]
	return last
}

func (m *inMemory) Start(_ context.Context, env peer.Env) error {
	if env.Attach != "" {
		return errors.New("a queue in memory has no second instance")
	}

	m.workers = newWorkers()
	return nil
}

func (m *inMemory) Schedule(_ context.Context, jobs ...peer.Job) error {
	m.mu.Lock()
	for _, j := range jobs {
		heap.Push(&m.jobs, j)
	}

	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}

	return nil
}

func (m *inMemory) Work(_ context.Context, handlers int, call peer.Call) error {
	jobs := m.workers.pool(handlers, call)
	m.workers.run(func(ctx context.Context) error {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			id, wait := m.next()
			if id != "" {
				if err := send(ctx, jobs, id); err != nil {
					return err
				}
				continue
			}

			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return nil
			case <-m.wake:
			case <-timer.C:
			}
		}
	})
	return nil
}

// next takes the head if it is due, and else says how long it is not.
func (m *inMemory) next() (id string, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.jobs) == 0 {
		return "", time.Hour
	}
	if wait := time.Until(m.jobs[0].Due); wait > 0 {
		return "", wait
	}

	return heap.Pop(&m.jobs).(peer.Job).ID, 0
}

func (m *inMemory) Usage(context.Context) (peer.Usage, error) {
	rss, err := server.RSS(os.Getpid())
	if err != nil {
		return peer.Usage{}, fmt.Errorf("own memory: %w", err)
	}

	return peer.Usage{Bytes: rss, Commands: -1, Trips: -1}, nil
}

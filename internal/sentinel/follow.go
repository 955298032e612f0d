package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// How often a sentinel is asked that tells of switches by itself, and one that does
// not; and how long it may take to answer.
const (
	askEvery  = time.Second
	pollEvery = 250 * time.Millisecond
	answer    = 2 * time.Second
)

// follow asks one sentinel for as long as the Watch lives.
func (w *Watch) follow(addr string) {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, Username: w.o.Username, Password: w.o.Password, TLSConfig: w.o.TLS,
		MaxRetries: -1, DialTimeout: w.o.DialTimeout, ReadTimeout: answer, WriteTimeout: answer, ContextTimeoutEnabled: true, PoolSize: 2,
		DialerRetries: 1, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	for w.life.Err() == nil {
		w.subscribed(c, addr)
	}
}

// What a sentinel tells by itself. Each is a reason to ask it: what it answers decides.
var (
	switches  = []string{"+switch-master", "+promoted-slave"}
	failovers = []string{"+try-failover"}
	abandoned = []string{"-failover-abort-*"}
)

// subscribed asks until the subscription ends, or cannot be made.
func (w *Watch) subscribed(c *redis.SentinelClient, addr string) {
	ctx, cancel := context.WithCancel(w.life)
	defer cancel()
	sub := c.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	told, lost := make(chan struct{}, 1), make(chan struct{})
	every := pollEvery
	w.all.Go(func() {
		defer close(lost)
		// A user that may hear of switches alone is refused the others.
		if sub.Subscribe(ctx, switches...) != nil || sub.Subscribe(ctx, failovers...) != nil || sub.PSubscribe(ctx, abandoned...) != nil {
			return
		}
		for {
			m, err := sub.Receive(ctx)
			if redis.IsPermissionError(err) {
				continue
			}
			if err != nil {
				return
			}
			if x, ok := m.(*redis.Message); ok && !slices.Contains(strings.Fields(x.Payload), w.o.Master) {
				continue
			}
			select { // also when the subscription has begun: it may have come too late
			case told <- struct{}{}:
			default:
			}
		}
	})
	for {
		err := w.ask(ctx, c, addr)
		if err == nil {
			select {
			case <-ctx.Done():
			case <-lost:
			case <-told:
				every = askEvery
				continue
			case <-time.After(every):
				continue
			}
		} else if ctx.Err() == nil {
			w.failed(addr, err)
		}
		select { // not again at once
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
		cancel()
		_ = sub.Close() // ends a Receive that waits for a silent sentinel
		<-lost
		return
	}
}

// ask asks a sentinel for the master, and for other sentinels.
func (w *Watch) ask(ctx context.Context, c *redis.SentinelClient, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	m, failing, err := w.master(ctx, c)
	if err != nil {
		return err
	}
	w.hear(addr, m, failing)
	others, err := c.Sentinels(ctx, w.o.Master).Result()
	if err != nil {
		return nil // it may be forbidden; those that were given have to do
	}
	for _, o := range others {
		if o["ip"] != "" && o["port"] != "" {
			w.add(net.JoinHostPort(o["ip"], o["port"]))
		}
	}
	return nil
}

// master is what a sentinel names, and whom it fails over. One that does not tell the epoch
// is taken for one of the first.
//
// Amid a failover SENTINEL MASTER tells the coming master's epoch and still the address
// of the old one. What is asked second is the address that clients are to use, which
// changes with the epoch.
func (w *Watch) master(ctx context.Context, c *redis.SentinelClient) (m, failing master, err error) {
	all, err := c.Master(ctx, w.o.Master).Result()
	if err == nil && all["ip"] != "" {
		m.addr = net.JoinHostPort(all["ip"], all["port"])
		m.epoch, _ = strconv.ParseInt(all["config-epoch"], 10, 64)
		if slices.Contains(strings.Split(all["flags"], ","), "failover_in_progress") {
			failing = m
		}
	}
	at, err := c.GetMasterAddrByName(ctx, w.o.Master).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return master{}, master{}, fmt.Errorf("it knows no master %q", w.o.Master)
	case err == nil && len(at) == 2:
		m.addr = net.JoinHostPort(at[0], at[1])
	case err == nil:
		return master{}, master{}, fmt.Errorf("it answers %d words to where the master is", len(at))
	case m.addr == "" || !redis.IsPermissionError(err):
		return master{}, master{}, err
	}
	return m, failing, nil
}

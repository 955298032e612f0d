package wire

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

// askSentinelEvery is the interval of questions to a sentinel that also publishes switches, pollEvery that to one
// that does not. answer is the time limit for an answer.
const (
	askSentinelEvery = time.Second
	pollEvery        = 250 * time.Millisecond
	answer           = 2 * time.Second
)

// follow asks one sentinel until the Watch is closed.
func (w *Watch) follow(addr string) {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, Username: w.o.Username, Password: w.o.Password, TLSConfig: w.o.TLS,
		MaxRetries: -1, DialTimeout: w.o.DialTimeout, ReadTimeout: answer, WriteTimeout: answer, ContextTimeoutEnabled: true, PoolSize: 2,
		DialerRetries: 1, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	c.AddHook(new(Replies))
	for w.life.Err() == nil {
		w.subscribed(c, addr)
	}
}

// Channels to which the sentinels' messages are published. A message only triggers a question: the answer
// decides.
var (
	switches  = []string{"+switch-master", "+promoted-slave"}
	failovers = []string{"+try-failover"}
	abandoned = []string{"-failover-abort-*"}
)

// subscribed asks the sentinel until its subscription ends, or cannot be made.
func (w *Watch) subscribed(c *redis.SentinelClient, addr string) {
	ctx, cancel := context.WithCancel(w.life)
	defer cancel()

	sub := c.Subscribe(ctx)
	defer func() { _ = sub.Close() }()

	notified, lost := make(chan struct{}, 1), make(chan struct{})
	w.all.Go(func() {
		defer close(lost)
		w.receive(ctx, sub, notified)
	})

	w.poll(ctx, c, addr, notified, lost)

	select { // before the next subscription
	case <-ctx.Done():
	case <-time.After(pollEvery):
	}

	cancel()
	_ = sub.Close() // ends a Receive that waits for a silent sentinel
	<-lost
}

// receive subscribes, and notifies of each message about the master, until the subscription ends.
func (w *Watch) receive(ctx context.Context, sub *redis.PubSub, notified chan<- struct{}) {
	// A user that may subscribe to switches only gets permission errors for the other channels.
	if sub.Subscribe(ctx, switches...) != nil || sub.Subscribe(ctx, failovers...) != nil || sub.PSubscribe(ctx, abandoned...) != nil {
		return
	}

	for {
		m, err := Receive(ctx, sub)
		if redis.IsPermissionError(err) {
			continue
		}
		if err != nil {
			return
		}
		if x, ok := m.(*redis.Message); ok && !slices.Contains(strings.Fields(x.Payload), w.o.Master) {
			continue
		}

		select { // also after the start of the subscription, which may have missed a message
		case notified <- struct{}{}:
		default:
		}
	}
}

// poll asks the sentinel at intervals and after each notification, until it fails or the subscription is lost.
func (w *Watch) poll(ctx context.Context, c *redis.SentinelClient, addr string, notified, lost <-chan struct{}) {
	every := pollEvery
	for {
		if err := w.ask(ctx, c, addr); err != nil {
			if ctx.Err() == nil {
				w.failed(addr, err)
			}
			return
		}

		select {
		case <-ctx.Done():
			return
		case <-lost:
			return
		case <-notified:
			every = askSentinelEvery
		case <-time.After(every):
		}
	}
}

// ask asks a sentinel for the master, and for the addresses of other sentinels.
func (w *Watch) ask(ctx context.Context, c *redis.SentinelClient, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()

	m, failing, err := w.master(ctx, c)
	if err != nil {
		return err
	}

	w.observe(addr, m, failing)
	others, err := c.Sentinels(ctx, w.o.Master).Result()
	if err != nil {
		return nil // possibly forbidden; the configured sentinels must suffice
	}

	for _, o := range others {
		if o["ip"] != "" && o["port"] != "" {
			w.add(net.JoinHostPort(o["ip"], o["port"]))
		}
	}

	return nil
}

// master asks a sentinel for the current master. failing is the master that this sentinel is failing over, and is
// empty without a failover. If the sentinel returns no epoch, the epoch is 0.
func (w *Watch) master(ctx context.Context, c *redis.SentinelClient) (m, failing master, err error) {
	all, err := c.Master(ctx, w.o.Master).Result()
	if err == nil && all["ip"] != "" {
		m.addr = net.JoinHostPort(all["ip"], all["port"])
		m.epoch, _ = strconv.ParseInt(all["config-epoch"], 10, 64)
		if slices.Contains(strings.Split(all["flags"], ","), "failover_in_progress") {
			failing = m
		}
	}

	// During a failover, SENTINEL MASTER already returns the new epoch, but still the old address. This command must
	// come second, because its answer changes at the end of the failover.
	at, err := c.GetMasterAddrByName(ctx, w.o.Master).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return master{}, master{}, fmt.Errorf("the sentinel does not know the master %q", w.o.Master)
	case err == nil && len(at) == 2:
		m.addr = net.JoinHostPort(at[0], at[1])
	case err == nil:
		return master{}, master{}, fmt.Errorf("the sentinel answered %d words to GET-MASTER-ADDR-BY-NAME, want 2", len(at))
	case m.addr == "" || !redis.IsPermissionError(err):
		return master{}, master{}, err
	}

	return m, failing, nil
}

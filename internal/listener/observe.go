package listener

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// probe finds out whether a node sends expired events where its notify flags
// cannot be read: it sets a key that expires, touches it a beat later, and checks
// one beat after that whether the subscription has received the event.
type probe struct {
	l     *Listener
	c     *redis.Client
	id    string
	heard atomic.Pointer[string] // the last probe whose event was received

	// What follows is of the goroutine that beats.
	refused bool // CONFIG is refused
	wanted  bool // and a probe helps
	step    int
	key     string
}

// event takes the name of an expired key of the namespace.
func (p *probe) event(key string) {
	if strings.HasSuffix(key, p.id) {
		p.heard.Store(&key)
	}
}

// beat takes the next step. It returns known = true when it can tell whether
// events are sent.
func (p *probe) beat(ctx context.Context) (sent, known bool, err error) {
	switch p.step++; p.step {
	case 1:
		if p.key, err = p.l.probeKey(ctx, p.c, p.id); err == nil {
			err = p.c.Set(ctx, p.key, "", max(p.l.o.Beat/2, time.Millisecond)).Err()
		}
	case 2:
		err = p.c.Exists(ctx, p.key).Err()
	case 3:
		heard := p.heard.Swap(nil)
		p.step = 0
		return heard != nil && *heard == p.key, true, nil
	}
	if err != nil {
		p.step = 0
		err = fmt.Errorf("probe for expired events: %w", err)
	}
	return false, false, err
}

// probeKey is a key of the namespace that a node holds.
func (l *Listener) probeKey(ctx context.Context, c *redis.Client, id string) (string, error) {
	if l.o.Masters == nil {
		return l.o.Space.EventProbe("", id), nil
	}
	text, err := c.ClusterNodes(ctx).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.Contains(f[2], "myself") {
			continue
		}
		first, _, _ := strings.Cut(f[8], "-")
		slot, err := strconv.Atoi(first)
		if err != nil || slot < 0 || slot >= keys.Slots {
			break
		}
		return l.o.Space.EventProbe(keys.TagIn(slot), id), nil
	}
	return "", fmt.Errorf("%s serves no slots", c.Options().Addr)
}

// observe takes a probe's next step and reports what it has found out.
func (l *Listener) observe(ctx context.Context, p *probe) {
	sent, known, err := p.beat(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		l.events(p.c, false, "CONFIG is refused, and so is a probe", err)
	case known:
		l.events(p.c, sent, "CONFIG is refused, and the event of a key that expired did not arrive", nil)
	}
}

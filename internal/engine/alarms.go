package engine

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/receivers"
	"notifier/internal/route"
)

const (
	// alarmEvery is the time between two looks at what Redis cannot carry.
	alarmEvery = time.Second
	// alarmAfter is how long Redis is unavailable before a message is sent: a failover takes less.
	alarmAfter = 15 * time.Second
	// alarmAgain is the time between two attempts to send a message, alarmGiveUp when the last one is made.
	alarmAgain, alarmGiveUp = 30 * time.Second, time.Hour
)

// alarms sends a team what Redis cannot carry: data lost, Redis full, Redis unavailable. It keeps all in memory, so each
// instance sends one message when it notices a cause, and one when that has ended. A nil alarms sends none.
type alarms struct {
	route                    *route.Route
	handler                  dispatch.Handler
	instance                 string
	logger                   *zap.Logger
	every, after, again, end time.Duration

	mu          sync.Mutex
	unavailable time.Time // since when; zero = Redis answers
	why         string
	lost        []string
	told        map[route.AlarmEvent]bool // causes that have begun
	waiting     []*waitingAlarm
}

// waitingAlarm is a message that is not acknowledged yet.
type waitingAlarm struct {
	route.AlarmMessage
	began, next time.Time
}

func newAlarms(o *Options) *alarms {
	if o.AlarmRoute == nil {
		return nil
	}

	return &alarms{route: o.AlarmRoute, handler: o.Handler, instance: o.Instance, logger: o.Logger, told: map[route.AlarmEvent]bool{},
		every: alarmEvery, after: alarmAfter, again: alarmAgain, end: alarmGiveUp}
}

// failed records why Redis is unavailable, over that it answers.
func (a *alarms) failed(since time.Time, why string) {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.unavailable, a.why = since, why
	}
}

func (a *alarms) over() { a.failed(time.Time{}, "") }

// dataLost records a loss of data.
func (a *alarms) dataLost(text string) {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lost = append(a.lost, text)
	}
}

// start sends messages until stop is called. It needs no Redis.
func (a *alarms) start(full func() string) (stop func()) {
	if a == nil {
		return func() {}
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(a.every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				a.look(now, full())
				a.send(ctx, now)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// look adds messages about causes that have begun or ended.
func (a *alarms) look(now time.Time, full string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, text := range a.lost {
		a.add(now, route.AlarmMessage{Event: route.AlarmLost, Since: now.UTC(), Text: text})
	}

	a.lost = nil
	a.change(now, route.AlarmFullEnded, full != "", &route.AlarmMessage{Event: route.AlarmFull, Since: now.UTC(), Text: full})
	a.change(now, route.AlarmAvailable, !a.unavailable.IsZero() && now.Sub(a.unavailable) >= a.after,
		&route.AlarmMessage{Event: route.AlarmUnavailable, Since: a.unavailable.UTC(), Text: a.why})
}

// change adds the message m about a cause that has begun, or the one that it has ended. The caller holds mu.
func (a *alarms) change(now time.Time, ends route.AlarmEvent, holds bool, m *route.AlarmMessage) {
	begins := m.Event
	switch {
	case holds && !a.told[begins]:
		a.add(now, *m)
	case !holds && a.told[begins]:
		a.add(now, route.AlarmMessage{Event: ends})
	}

	a.told[begins] = holds
}

// add adds a message. The caller holds mu.
func (a *alarms) add(now time.Time, m route.AlarmMessage) {
	m.Instance = a.instance
	a.waiting = append(a.waiting, &waitingAlarm{m, now, now})
}

// send sends the messages that are due, oldest first. It ends at the first one that is not acknowledged.
func (a *alarms) send(ctx context.Context, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.waiting) > 0 && !a.waiting[0].next.After(now) {
		m := a.waiting[0]
		a.mu.Unlock()
		result := a.attempt(ctx, m)
		a.mu.Lock()
		switch {
		case ctx.Err() != nil:
			return
		case result.Outcome == notice.OutcomeDelivered:
		case now.Sub(m.began) < a.end:
			if m.next.Equal(m.began) {
				a.logger.Warn("the address of NOTIFIER_ALARM_URL did not acknowledge a message, retrying", zap.String("event", string(m.Event)),
					zap.String("reason", string(result.Reason)), zap.String("answer", result.Response))
			}

			m.next = now.Add(a.again)
			return
		default:
			a.logger.Error("the address of NOTIFIER_ALARM_URL did not acknowledge a message, giving up", zap.String("event", string(m.Event)),
				zap.String("reason", string(result.Reason)))
		}

		a.waiting = a.waiting[1:]
	}
}

// attempt makes one attempt to send a message.
func (a *alarms) attempt(ctx context.Context, m *waitingAlarm) notice.Result {
	ctx, cancel := context.WithTimeout(ctx, a.route.Timeout)
	defer cancel()
	return a.handler.Handle(ctx, a.route, &notice.Notice{Key: keys.Fill(a.route.Prefix, "message") + ":" + string(m.Event),
		Route: a.route.Prefix, Made: notice.MadeAt(m.began), Due: m.began, Content: notice.Content{Body: a.route.Robot.Body(&m.AlarmMessage)}})
}

// causePage returns the address of the page about the dead letters of a route, or about its receivers; empty if the
// address of the pages is not known.
func (e *Engine) causePage(name string, down bool) string {
	switch {
	case e.o.PublicURL == "":
		return ""
	case down:
		return e.o.PublicURL + problems.ReceiversPath(name, receivers.Selection{})
	}
	return e.o.PublicURL + problems.DeadPath(name)
}

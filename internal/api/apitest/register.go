package apitest

import (
	"context"
	"strings"
	"time"

	"notifier/internal/session"
)

// register is a [session.Register] in memory. No test waits for the end of a session or
// a link.
type register struct {
	live  map[string]bool // by client, link and id
	links map[string]string
}

func liveKey(client, link, id string) string { return client + "\n" + link + "\n" + id }

// BeginSession keeps a session.
func (e *Engine) BeginSession(_ context.Context, client, link, id string, _ time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		return e.fail
	}
	same := 0
	for k := range e.register.live {
		if link != "" && strings.HasPrefix(k, liveKey(client, link, "")) {
			same++
		}
	}
	if same >= session.MaxSessions {
		return &session.Full{Wait: time.Hour}
	}
	e.register.live[liveKey(client, link, id)] = true
	return nil
}

// EndSession ends a session.
func (e *Engine) EndSession(_ context.Context, client, link, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail == nil {
		delete(e.register.live, liveKey(client, link, id))
	}
	return e.fail
}

// SessionStands reports whether a session, and the link it came from, are good.
func (e *Engine) SessionStands(_ context.Context, client, link, id string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, linked := e.register.links[link]
	return e.register.live[liveKey(client, link, id)] && (link == "" || linked), e.fail
}

// KeepLink notes a link.
func (e *Engine) KeepLink(_ context.Context, id, text string, _ time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail == nil {
		e.register.links[id] = text
		e.changes++
	}
	return e.fail
}

// Link is what was noted of a link.
func (e *Engine) Link(_ context.Context, id string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.register.links[id], e.fail
}

// DropLink forgets a link.
func (e *Engine) DropLink(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail == nil {
		delete(e.register.links, id)
	}
	return e.fail
}

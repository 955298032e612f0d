package apitest

import (
	"context"
	"time"
)

// register is a [session.Register] in memory. What was put in stays: no test
// waits for the end of a link.
type register struct {
	ended map[string]bool
	links map[string]string
}

// EndSession refuses a session.
func (e *Engine) EndSession(_ context.Context, id string, _ time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail == nil {
		e.register.ended[id] = true
	}
	return e.fail
}

// SessionStands reports whether a session, and the link it came from, are good.
func (e *Engine) SessionStands(_ context.Context, id, link string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, linked := e.register.links[link]
	return !e.register.ended[id] && (link == "" || linked), e.fail
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

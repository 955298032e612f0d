package apitest

import (
	"context"
	"fmt"
	"slices"
)

// ClientNumber numbers clients in the order in which they call.
func (e *Engine) ClientNumber(_ context.Context, name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.clients, name) {
		e.clients = append(e.clients, name)
	}
	return slices.Index(e.clients, name) + 1
}

// ClientName is the inverse of ClientNumber.
func (e *Engine) ClientName(_ context.Context, n int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n < 1 || n > len(e.clients) {
		return fmt.Sprintf("#%d", n)
	}
	return e.clients[n-1]
}

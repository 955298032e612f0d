package store

import "errors"

// Errors that callers tell apart; those of Redis are in package wire.
var (
	// ErrNotFound: no notice is kept under the key.
	ErrNotFound = errors.New("no such notice")
	// ErrUnrouted: no route covers the key.
	ErrUnrouted = errors.New("no route covers the key")
	// ErrCursor: a page's cursor was not made by this service.
	ErrCursor = errors.New("not a cursor of this listing")
)

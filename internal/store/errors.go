package store

import "errors"

// Errors that callers distinguish; those of Redis are in package wire.
var (
	// ErrNotFound is returned if the key has no notice.
	ErrNotFound = errors.New("no such notice")
	// ErrUnrouted is returned if no route covers the key.
	ErrUnrouted = errors.New("no route covers the key")
	// ErrCursor is returned for a cursor that is not of this listing.
	ErrCursor = errors.New("not a cursor of this listing")
)

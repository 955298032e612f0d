package store

import "errors"

// Errors that callers tell apart; those of Redis are in package wire.
var (
	// ErrNotFound: no notice is kept under the key.
	ErrNotFound = errors.New("no such notice")
	// ErrForeign: the fleet's keys hold something else, which another program has put
	// there.
	ErrForeign = errors.New("another program may use the keys under which instances say that they live")
	// ErrUnrouted: no route covers the key.
	ErrUnrouted = errors.New("no route covers the key")
	// ErrCursor: a page's cursor was not made by this service.
	ErrCursor = errors.New("not a cursor of this listing")
)

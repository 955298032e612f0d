package store

import (
	"errors"
	"fmt"

	"notifier/internal/wire"
)

// Errors that callers distinguish; those of Redis are in package wire.
var (
	// ErrNotFound is returned if the key has no notice.
	ErrNotFound = errors.New("no such notice")
	// ErrUnrouted is returned if no route covers the key.
	ErrUnrouted = errors.New("no route covers the key")
	// ErrNoDataKey is returned if Redis does not have the data key of a sealed content. Nothing was written.
	ErrNoDataKey = fmt.Errorf("%w: the shard does not have the data key of a sealed notice", wire.ErrUnavailable)
	// ErrCursor is returned for a cursor that is not of this listing.
	ErrCursor = errors.New("not a cursor of this listing")
)

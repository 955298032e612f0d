package history

import "errors"

var (
	// ErrConfig is wrapped by errors that a different NOTIFIER_HISTORY_URL would avoid.
	ErrConfig = errors.New("NOTIFIER_HISTORY_URL")
	// ErrNewer means that the schema is newer than this program.
	ErrNewer = errors.New("the schema of the history is newer than this program")
	// ErrForeign means that the history belongs to another service. Nothing is read or written.
	ErrForeign = errors.New("the history belongs to another service")
	// ErrUnavailable means that the database does not answer.
	ErrUnavailable = errors.New("the history's database does not answer")
	// ErrClocks means that the database's clock and Redis's differ too much for the age of entries to be known.
	ErrClocks = errors.New("two clocks differ")
	// ErrSlow means that a query took too long.
	ErrSlow = errors.New("the history took too long to search")
	// ErrBusy means that the maximum number of text searches is running.
	ErrBusy = errors.New("the history runs enough searches for text")
	// ErrNoKeys means that Redis did not return the data keys of sealed rows, which were not written.
	ErrNoKeys = errors.New("cannot read the keys of sealed notices in Redis")
	// ErrReplayKnown means that a replay with this id exists.
	ErrReplayKnown = errors.New("there is a replay of this id")
	// errUnowned means that the history has no entry yet, and so belongs to no service.
	errUnowned = errors.New("the history has no owner")
	// ErrCursor means that a cursor does not belong to this listing.
	ErrCursor = errors.New("not a cursor of the history")
)

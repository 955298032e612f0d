package history

import "errors"

var (
	// ErrConfig is what errors wrap that a better NOTIFIER_HISTORY_URL would mend.
	ErrConfig = errors.New("NOTIFIER_HISTORY_URL")
	// ErrNewer says that the schema is newer than this program.
	ErrNewer = errors.New("the schema of the history is newer than this program")
	// ErrForeign says that the history belongs to another service. Nothing is read or
	// written.
	ErrForeign = errors.New("the history belongs to another service")
	// ErrUnavailable says that the database does not answer.
	ErrUnavailable = errors.New("the history's database does not answer")
	// ErrSlow says that a question took too long.
	ErrSlow = errors.New("the history took too long to search")
	// ErrBusy says that enough searches for text run.
	ErrBusy = errors.New("the history runs enough searches for text")
	// ErrReplayKnown says that there is a replay of this id.
	ErrReplayKnown = errors.New("there is a replay of this id")
	// ErrCursor says that a cursor is none of this listing.
	ErrCursor = errors.New("not a cursor of the history")
)

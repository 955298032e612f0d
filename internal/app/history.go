package app

import (
	"fmt"

	"notifier/internal/api"
	"notifier/internal/config"
	"notifier/internal/history"
	_ "notifier/internal/history/postgres" // for postgres://
	_ "notifier/internal/history/sqlite"   // for sqlite:///
)

// openHistory returns the history that the configuration names, or nil if it names none. It does
// not connect to the database, which may be down while notices are delivered.
func openHistory(c config.History) (*history.DB, error) {
	if len(c.URL) == 0 {
		return nil, nil
	}

	d, err := history.Open(history.Options{URL: string(c.URL), Bodies: history.Bodies(c.Bodies), Retention: c.Retention})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}

	return d, nil
}

// historian returns the API's access to the history; nil without a history.
func (p *Process) historian() api.Historian {
	if p.history == nil {
		return nil
	}
	return p.history
}

// eraser returns the API's eraser; nil without a history.
func (p *Process) eraser() api.Eraser {
	if p.history == nil {
		return nil
	}
	return p.Engine
}

// replayer returns the API's replayer; nil without a history.
func (p *Process) replayer() api.Replayer {
	if p.history == nil {
		return nil
	}
	return p.Engine
}

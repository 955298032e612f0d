package app

import (
	"notifier/internal/api"
	_ "notifier/internal/history/postgres" // for postgres://
	_ "notifier/internal/history/sqlite"   // for sqlite:///
)

// historian returns the API's access to the history; nil without a history.
func (p *Process) historian() api.Historian {
	if p.history.DB == nil {
		return nil
	}
	return p.history.DB
}

// eraser returns the API's eraser; nil without a history.
func (p *Process) eraser() api.Eraser {
	if p.history.DB == nil {
		return nil
	}
	return p.Engine
}

// replayer returns the API's replayer; nil without a history.
func (p *Process) replayer() api.Replayer {
	if p.history.DB == nil {
		return nil
	}
	return p.Engine
}

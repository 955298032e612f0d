package worker

import (
	"context"
	"fmt"

	"notifier/internal/engine"
	"notifier/worker/internal/seam"
)

func init() {
	seam.Set = func(o any, s seam.Seam) {
		if o, ok := o.(*Options); ok {
			o.seam = &s
		}
	}
	seam.Engine = func(w any) *engine.Engine {
		if w, ok := w.(*Worker); ok {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.engine
		}
		return nil
	}
	seam.Serve = func(w any, clients []string) (seam.Parts, error) {
		if w, ok := w.(*Worker); ok {
			return w.serve(clients)
		}
		return seam.Parts{}, fmt.Errorf("%w: not a worker", ErrConfig)
	}
}

// served are the clients of a worker whose API is served.
type served struct{ clients []string }

// serve makes the engine for an API with clients, and returns the parts of the worker that the API shows.
func (w *Worker) serve(clients []string) (seam.Parts, error) {
	w.mu.Lock()
	if w.engine != nil {
		w.mu.Unlock()
		return seam.Parts{}, fmt.Errorf("%w: the API must be created once, before the first call of Run or another method", ErrConfig)
	}

	w.served = &served{clients}
	w.mu.Unlock()
	if err := w.make(); err != nil {
		return seam.Parts{}, err
	}

	return seam.Parts{Config: w.c, Engine: w.engine, Routes: w.table, History: w.history.DB, Logger: w.overruns.log,
		Go: func(f func(context.Context)) { w.serving.Go(func() { f(w.life) }) }}, nil
}

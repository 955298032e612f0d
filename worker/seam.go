package worker

import (
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
}

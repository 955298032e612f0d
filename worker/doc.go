// Package worker runs handlers at a later time, inside your program. It keeps the pending work, the notices, in Redis,
// where instances of the service notifier, and other workers, may work on the same data.
//
// A program registers handlers, schedules notices and runs the worker:
//
//	w, err := worker.New(worker.Options{Redis: os.Getenv("NOTIFIER_REDIS_URL")})
//	// …
//	worker.HandleJSON(w, "shop:orders:close", func(ctx context.Context, n *worker.Notice, o Order) error {
//		return shop.CloseUnlessPaid(ctx, o)
//	}, worker.Retry(15*time.Second, 3*time.Minute), worker.Timeout(time.Minute))
//	_, err = w.Schedule(ctx, worker.Request{Key: "shop:orders:close:4711", Delay: 30 * time.Minute, JSON: order})
//	// …
//	err = w.Run(ctx) // until ctx ends
//
// A key has four parts, app:module:type:id. It names the notice, and by its first parts the handler: the one with the
// longest prefix is called. A program that only schedules needs no Run.
//
// # Results
//
// The error that a handler returns decides what follows:
//
//	nil                the notice is delivered
//	any error          another attempt after the next delay of Retry; without one left the notice is dead
//	RetryAfter         the same, but not before a given time
//	Defer              another attempt after a given time, which uses no delay of Retry; for locks
//	Dead               the notice is dead
//
// A panic is an error with its stack. A call of runtime.Goexit, as in T.FailNow, is an error too. A dead notice is stored
// until an operator deals with it: notifier dead, redrive and the dashboard work on notices of workers too.
//
// # Contexts
//
// The context of a handler is not that of Run. It ends at the handler's timeout, when other instances take over its
// notice, or when ShutdownTimeout has passed since the end of Run's context. [context.Cause] returns [ErrTimeout],
// [ErrLeaseLost] or [ErrShutdown]; the last two use no attempt. A handler that runs on keeps its slot, and its notice may
// be handled again meanwhile; then its result is refused. [Worker.Stats] counts such handlers, and the log names one of
// them each minute.
//
// # Guarantees
//
// No notice is handled early, by Redis's clock, and none is lost unless Redis loses it. Each is handled at least once. It
// is handled again if the program dies in a handler, if a handler runs for 5 s longer than its timeout, or if Redis loses
// the result. So a handler should do the same when it is called again with the same [Notice] ID.
//
// # Duplicates
//
// A call of Schedule may be repeated: the same key and content is no error and no second notice. A key whose notice is
// finished counts as a duplicate for Options.Retention, 24 hours by default; use a new id for new work, or [Replace].
//
// # Prefixes
//
// Run records the prefixes of the handlers in Redis. From then on, no instance of the service delivers their notices, and
// every instance accepts calls that schedule them, also while no worker runs. They wait for a worker until an operator
// releases the prefix with notifier routes release. Run returns an error, and records nothing, if a running instance of
// the service has a route with one of the prefixes.
//
// # History
//
// With Options.History the worker records finalized notices in a database. The driver is in notifier/worker/pghistory or
// notifier/worker/sqlitehistory, of which the program imports one.
//
// # Process
//
// The package has no global state, reads the environment only in [FromEnv], handles no signals and never exits. Several
// workers may run in one process.
package worker

// Package worker handles notices inside a Go program, beside instances of the service on the same Redis.
//
//	w, err := worker.New(worker.Options{Redis: os.Getenv("NOTIFIER_REDIS_URL")})
//	w.Handle("shop:orders:close", closeOrder, worker.Timeout(time.Minute), worker.Concurrency(64))
//	_, err = w.Schedule(ctx, worker.Request{Key: "shop:orders:close:4711", Delay: 30 * time.Minute, JSON: order})
//	err = w.Run(ctx) // until ctx ends; then handlers have ShutdownTimeout
//
// # Guarantees
//
// A notice is handled at least once. It is handled again if the program dies in a handler, if a handler runs for longer
// than its timeout and 5 s, or if Redis loses the result.
//
// # Prefixes
//
// Run records the prefixes of the handlers in Redis. From then on, no instance of the service delivers their notices, and
// every instance accepts calls that schedule them, also while no worker runs. They wait for a worker until an operator
// releases the prefix. Run returns an error, and records nothing, if a running instance of the service has a route with
// one of the prefixes.
package worker

package acceptance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"notifier/worker"
)

// workerLedger is the variable that makes this test binary a worker. It names the file in which the worker notes each call
// of a handler.
const workerLedger = "ACCEPTANCE_WORKER_LEDGER"

// workerPrefixes are the prefixes of the worker's handlers. The first two are within the prefix of a route of the service,
// and the last one contains the prefix of another route.
var workerPrefixes = []string{"shop:orders:close", "shop:refunds", "mail"}

// workerTakes is how long a handler works.
const workerTakes = 20 * time.Millisecond

// workerProgram handles notices until SIGTERM, and returns the exit code.
func workerProgram(path string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := runWorker(ctx, path); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func runWorker(ctx context.Context, path string) error {
	o, err := worker.FromEnv()
	if err != nil {
		return err
	}
	o.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w, err := worker.New(o)
	if err != nil {
		return err
	}
	ledger, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = ledger.Close() }()
	for i, prefix := range workerPrefixes {
		var options []worker.HandlerOption
		if i == 1 {
			options = append(options, worker.Order())
		}
		w.Handle(prefix, func(_ context.Context, n *worker.Notice) error {
			line := fmt.Sprintf("%s %s %d %d %d\n", prefix, n.Key, n.Attempt, n.Due.UnixNano(), time.Now().UnixNano())
			if _, err := ledger.WriteString(line); err != nil {
				return err
			}
			time.Sleep(workerTakes) // sleep: the handler's work
			return nil
		}, options...)
	}
	return w.Run(ctx)
}

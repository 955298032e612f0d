package workerui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/access"
	"notifier/internal/api"
	"notifier/internal/config"
	"notifier/internal/keyring"
	"notifier/internal/sampler"
	"notifier/internal/ui"
	"notifier/worker"
	"notifier/worker/internal/seam"
)

// Options of Handler.
type Options struct {
	// Clients may call the API and sign in to the pages. Without any, only connections to a loopback address are answered.
	Clients []Client
}

// Client is a caller of the API. Each field has the rules of the service's variable NOTIFIER_CLIENT_<NAME>_….
type Client struct {
	Name  string
	Token string // 32 characters at least
	// Prefix is the scope of its keys; empty = all keys.
	Prefix string
	// Role is read, produce, operate or admin.
	Role string
	// Rate is the number of its requests, such as 100/s; empty = 5000/s.
	Rate string
}

// Handler returns the API and the pages of a worker. It must be called once, after Handle and Use, and before other
// methods of the worker. Their streams end when the worker is closed. The error wraps worker.ErrConfig.
func Handler(w *worker.Worker, o Options) (http.Handler, error) {
	list, err := o.clients()
	if err != nil {
		return nil, err
	}

	names := make([]string, len(list))
	for i, x := range list {
		names[i] = x.Name
	}

	p, err := seam.Serve(w, names)
	if err != nil {
		return nil, err
	}

	return guard(len(list) == 0, handler(p, config.Callers(list))), nil
}

// clients returns the clients, checked by the rules of the service's variables.
func (o Options) clients() ([]config.Client, error) {
	values, names := map[string]string{}, make([]string, len(o.Clients))
	for i, x := range o.Clients {
		names[i] = x.Name
		prefix := config.ClientPrefix(strings.ToLower(x.Name))
		for field, value := range map[string]string{"TOKEN": x.Token, "PREFIX": x.Prefix, "ROLE": x.Role, "RATE": x.Rate} {
			if value != "" {
				values[prefix+field] = value
			}
		}

		if x.Name == "" || strings.Contains(x.Name, ",") {
			return nil, fmt.Errorf("%w: workerui.Options.Clients[%d].Name=%q: want 1 to 32 letters, digits, '_' and '-'", worker.ErrConfig, i,
				x.Name)
		}
	}

	values[config.Prefix+"CLIENTS"] = strings.Join(names, ",")
	list, err := config.LoadClients(envconfig.MapLookuper(values), os.ReadFile)
	if errs := (config.Errors{}); errors.As(err, &errs) {
		return nil, fmt.Errorf("%w: workerui.Options.Clients, as variables of the service: %w", worker.ErrConfig, err)
	}

	return list, err
}

// handler returns the API with the pages beside it.
func handler(p seam.Parts, clients []access.Client) http.Handler {
	e, c := p.Engine, p.Config
	ring, failures := keyring.New(e.Key), access.NewFailures(access.FailuresOptions{Logger: p.Logger})
	figures := sampler.New(sampler.Options{Engine: e, Routes: p.Routes, Health: e, Now: e.Now})
	a := api.Options{Engine: e, Routes: p.Routes, Clients: clients, Failures: failures, MaxBody: c.MaxBody, Memory: c.APIMemory, Keys: ring,
		Mask: c.UIMask, Logger: p.Logger, LogCalls: api.LogCalls(c.LogCalls), Version: "worker", Loopback: true, Sampler: figures, Pages: true}
	if p.History != nil {
		a.History, a.Eraser, a.Replayer = p.History, e, e
	}

	pages := ui.New(ui.Beside(&a, e))
	p.Go(func(ctx context.Context) { _ = pages.Run(ctx) }) // it returns nil
	return pages.Beside(api.New(a))
}

// guard refuses connections to other than loopback addresses, without clients.
func guard(open bool, next http.Handler) http.Handler {
	if !open {
		return next
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || !access.LocalOnly(a) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="notifier"`)
			http.Error(w, "no client is configured, so calls from other machines are refused; set workerui.Options.Clients, or listen on 127.0.0.1",
				http.StatusUnauthorized)
			return
		}

		next.ServeHTTP(w, r)
	})
}

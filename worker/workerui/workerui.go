package workerui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/problems"
	"notifier/internal/ui"
	"notifier/internal/wire"
	"notifier/worker"
	"notifier/worker/internal/seam"
)

// Options of Handler.
type Options struct {
	// Clients may call the API and sign in to the pages. Without any, only connections to a loopback address are answered.
	Clients []Client
	// TrustedProxies are the networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are used. Without them, the
	// address of a proxy is that of its callers, in the audit and in the limit of wrong tokens.
	TrustedProxies []netip.Prefix
	// Metrics answers GET /metrics, for example promhttp.Handler(), to clients without a prefix. Nil = 404.
	Metrics http.Handler
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

	h := auth.Proxies(o.TrustedProxies).Handler(handler(p, config.Callers(list), o.Metrics))
	return guard(len(list) == 0, h), nil
}

// clients returns the clients, checked by the rules of the service's variables.
func (o Options) clients() ([]config.Client, error) {
	values, names := map[string]string{}, make([]string, len(o.Clients))
	fields := []string{}
	for i, x := range o.Clients {
		at := fmt.Sprintf("workerui.Options.Clients[%d].", i)
		if x.Name == "" || strings.Contains(x.Name, ",") {
			return nil, fmt.Errorf("%w: %sName=%q: want 1 to 32 letters, digits, '_' and '-'", worker.ErrConfig, at, x.Name)
		}

		names[i] = x.Name
		prefix := config.ClientPrefix(strings.ToLower(x.Name))
		fields = append(fields, ", or "+prefix+"TOKEN_FILE with the name of a file that holds it", "")
		for field, value := range map[string]string{"Token": x.Token, "Prefix": x.Prefix, "Role": x.Role, "Rate": x.Rate} {
			variable := prefix + strings.ToUpper(field)
			fields = append(fields, variable, at+field)
			if value != "" {
				values[variable] = value
			}
		}
	}

	values[config.Prefix+"CLIENTS"] = strings.Join(names, ",")
	list, err := config.LoadClients(envconfig.MapLookuper(values), os.ReadFile)
	if errs := (config.Errors{}); errors.As(err, &errs) {
		return nil, fmt.Errorf("%w: %w", worker.ErrConfig, errs.Renamed(append(fields, config.Prefix+"CLIENTS", "workerui.Options.Clients")))
	}

	return list, err
}

// handler returns the API with the pages beside it.
func handler(p seam.Parts, clients []auth.Client, metrics http.Handler) http.Handler {
	e, c := p.Engine, p.Config
	ring, failures := wire.NewKeyRing(e.Key), auth.NewFailures(auth.FailuresOptions{Logger: p.Logger})
	figures := problems.NewSampler(problems.SamplerOptions{Engine: e, Routes: p.Routes, Health: e, Now: e.Now,
		Examine: func(ctx context.Context) (*doctor.Report, error) { return doctor.Run(ctx, c, doctor.Options{}) }})
	a := api.Options{Engine: e, Routes: p.Routes, Clients: clients, Failures: failures, MaxBody: c.MaxBody, Memory: c.APIMemory, Keys: ring,
		Mask: c.UIMask, Logger: p.Logger, LogCalls: api.LogCalls(c.LogCalls), Version: "worker", Loopback: true, Sampler: figures, Pages: true,
		Metrics: metrics, Recurrences: e.Recurrences()}
	if p.History != nil {
		a.History, a.Eraser, a.Replayer = p.History, e, e.Replays()
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
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || !auth.LocalOnly(a) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="notifier"`)
			http.Error(w, "no client is configured, so calls from other machines are refused; set workerui.Options.Clients, or listen on 127.0.0.1",
				http.StatusUnauthorized)
			return
		}

		next.ServeHTTP(w, r)
	})
}

package config

import (
	"slices"
	"strings"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/auth"
)

// workerVars are the variables of a program with handlers, in addition to those of Redis. The others configure routes, the
// API or the pages, which such a program does not have.
var workerVars = []string{"NAMESPACE", "SHARDS", "INSTANCE", "CONCURRENCY", "GRACE", "RETENTION", "RETAIN", "REPEAT_WINDOW",
	"REPEAT_BYTES", "CONFIGURE_REDIS", "SHUTDOWN_TIMEOUT", "TAKEOVER", "DURABILITY", "DURABILITY_SETTLE", "DURABILITY_TIMEOUT",
	"LOG_ATTEMPTS", "HISTORY_URL", "HISTORY_URL_FILE", "HISTORY_BODIES", "HISTORY_RETENTION", "HISTORY_BACKLOG", "SEAL_KEYS",
	"SEAL_KEYS_FILE"}

// LoadWorker reads the variables that apply to a program with handlers. The other fields of the Config have their defaults,
// whatever the environment says. Its error is of type [Errors].
func LoadWorker(lookup envconfig.Lookuper, readFile func(string) ([]byte, error)) (*Config, error) {
	ours := envconfig.LookuperFunc(func(name string) (string, bool) {
		short := strings.TrimPrefix(name, Prefix)
		if !slices.Contains(workerVars, short) && !slices.ContainsFunc(slices.Collect(fields(redisVars{})), func(f field) bool {
			return f.name == strings.TrimSuffix(short, "_FILE") || f.name == short
		}) {
			return "", false
		}

		return lookup.Lookup(name)
	})
	r := newReader(ours, readFile)
	c, _ := r.base()
	if len(r.errs) > 0 {
		return nil, r.errs.sorted()
	}

	return c, nil
}

// LoadClients reads NOTIFIER_CLIENTS and the variables of each client. Its error is of type [Errors].
func LoadClients(lookup envconfig.Lookuper, readFile func(string) ([]byte, error)) ([]Client, error) {
	r := newReader(lookup, readFile)
	names, _ := r.value(Prefix + "CLIENTS")
	list := r.clients(names)
	if len(r.errs) > 0 {
		return nil, r.errs.sorted()
	}

	return list, nil
}

// Callers returns clients as the API and the pages know them.
func Callers(list []Client) []auth.Client {
	out := make([]auth.Client, 0, len(list))
	for _, x := range list {
		out = append(out, auth.Client{Name: x.Name, Token: string(x.Token), Prefix: x.Prefix, Role: x.Role, Rate: x.Rate})
	}

	return out
}

package main

import (
	"fmt"
	"strings"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// configuration returns docs/configuration.md, from the table of variables that the service reads.
func configuration() string {
	var service, clients, routes []config.Variable
	for _, v := range config.Variables() {
		switch {
		case strings.HasPrefix(v.Name, config.Prefix+"CLIENT_<NAME>_"):
			clients = append(clients, v)
		case strings.HasPrefix(v.Name, config.Prefix+"ROUTE_<NAME>_"):
			routes = append(routes, v)
		default:
			service = append(service, v)
		}
	}

	var b strings.Builder
	b.WriteString(`<!-- Made by go generate ./internal/config from the table that the service reads. -->
# Configuration

notifier is configured by environment variables only. If any is wrong, missing or
unknown, the service does not start (exit code 2) and lists all of them with acceptable
values. An empty variable counts as not set. Durations are Go durations
(` + "`15s`, `1h30m`" + `), also with days and weeks (` + "`7d`, `2w`" + `). The units are ` + "`w`, `d`, `h`, `m`, `s` and `ms`" + `.
A number without a unit is in seconds: ` + "`5000` is `1h23m20s`" + `.

*or file*: the variable with ` + "`_FILE`" + ` at the end of its name may name a file that holds
the value.

## Service

`)
	table(&b, service)
	b.WriteString(`
## Clients

For each name in ` + "`NOTIFIER_CLIENTS`" + `, written in capitals and with ` + "`_` for `-`" + `:

`)
	table(&b, clients)
	b.WriteString(`
## Routes

For each name in ` + "`NOTIFIER_ROUTES`" + `, written in the same way:

`)
	table(&b, routes)
	b.WriteString(`
The variables for HTTP (` + "`ACK`, `RATE`, `SECRET`, `SIGN_PER`, `HEADERS`, `HEADERS_TO`, `ALLOW`, `HTTPS_ONLY`, the certificates, `PROXY`, `HTTP`, `TLS`, `METHOD`, `HOST_CONCURRENCY`" + `)
are refused on a route whose target is a list, a stream or the log.

### Defaults of all routes

` + config.DefaultsText() + `

### Presets

A preset is a value of ` + "`_RETRY`" + ` that sets ladder, acknowledgement and timeout
together. ` + "`_ACK` and `_TIMEOUT`" + ` take precedence if they are set too.

| preset | ladder | in all | acknowledged by | timeout | follows |
|---|---|---|---|---|---|
`)
	for _, p := range route.Presets {
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s | %s |\n", p.Name, strings.ReplaceAll(p.Ladder.String(), ",", " "),
			p.Ladder.Summary(), p.Ack, notice.Short(p.Timeout), p.Follows)
	}

	b.WriteString(`
## OpenTelemetry

The standard ` + "`OTEL_*`" + ` variables export traces and metrics over HTTP. [tracing.md](tracing.md) lists those that are read.
Without an endpoint nothing is exported.

## Other variables

| variable | |
|---|---|
| ` + "`NOTIFIER_URL`" + ` | where the commands that call the API find it |
| ` + "`NOTIFIER_TOKEN`" + ` or file | the token they send |
| ` + "`NOTIFIER_TEST_*`" + ` | for the tests of this repository |

` + "`serve`" + ` ignores these.
`)
	return b.String()
}

func table(b *strings.Builder, list []config.Variable) {
	b.WriteString("| variable | default | |\n|---|---|---|\n")
	for _, v := range list {
		name := "`" + v.Name + "`"
		if v.Secret {
			name += " or file"
		}

		def := ""
		if v.Default != "" {
			def = "`" + v.Default + "`"
		}

		fmt.Fprintf(b, "| %s | %s | %s |\n", name, def, strings.ReplaceAll(v.Text, "|", `\|`))
	}
}

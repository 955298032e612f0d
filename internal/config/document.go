package config

import (
	"fmt"
	"strings"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// Document is docs/configuration.md.
func Document() string {
	var b strings.Builder
	b.WriteString(`<!-- Made by go generate ./internal/config from the table that the service reads. -->
# Configuration

The environment is the only configuration. A variable that is wrong, missing or
unknown is refused at start (exit code 2): all of them together, each with what
would be right. An empty variable counts as not set. Durations are Go durations
(` + "`15s`, `1h30m`" + `) or seconds.

Where the table says *or file*, the variable with ` + "`_FILE`" + ` at its end names a
file that holds the value, as Docker and Kubernetes mount secrets. Set one of
the two.

## Service

`)
	table(&b, rows("", serviceVars{}))
	b.WriteString(`
## Clients

For each name in ` + "`NOTIFIER_CLIENTS`" + `, spelt in capitals, ` + "`-` as `_`" + `:

`)
	table(&b, rows("CLIENT_<NAME>_", clientVars{}))
	b.WriteString(`
## Routes

For each name in ` + "`NOTIFIER_ROUTES`" + `, spelt likewise:

`)
	table(&b, rows("ROUTE_<NAME>_", routeVars{}))
	b.WriteString(`
What concerns HTTP (` + "`ACK`, `SECRET`, `HEADERS`, `ALLOW`, `HTTPS_ONLY`, the certificates, `PROXY`, `METHOD`, `HOST_CONCURRENCY`" + `)
is refused on a route whose target is a list, a stream or the log.

### Presets

A value of ` + "`_RETRY`" + ` that sets ladder, acknowledgement and timeout together;
what is set beside it wins.

| preset | ladder | in all | acknowledged by | timeout | follows |
|---|---|---|---|---|---|
`)
	for _, p := range route.Presets {
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` | %s | %s |\n", p.Name, strings.ReplaceAll(p.Ladder.String(), ",", " "),
			p.Ladder.Summary(), p.Ack, notice.Short(p.Timeout), p.Follows)
	}
	b.WriteString(`
## Other variables

| variable | |
|---|---|
| ` + "`NOTIFIER_URL`" + ` | where the commands that call the API find it |
| ` + "`NOTIFIER_TOKEN`" + ` or file | the token they send |
| ` + "`NOTIFIER_TEST_*`" + ` | for the tests of this repository |

` + "`serve`" + ` knows these and takes no notice of them.
`)
	return b.String()
}

func table(b *strings.Builder, list []Variable) {
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

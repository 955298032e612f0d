package ui

import (
	"net/http"
	"strings"

	"notifier/internal/auth"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/sign"
)

// firstCall is the command that schedules the first notice of an empty system.
type firstCall struct {
	Command string // empty = there is no command to show
	Local   bool   // the notice goes to a receiver on the service's machine
	Example bool   // the receiver's address is an example
	Token   bool   // the command needs the visitor's token
}

// empty reports whether Redis has no notices of the visitor.
func empty(b *problems.Board, p *Pages, v Visitor) bool {
	list, _ := problems.RoutesOf(b, p.o.Routes, v.caller())
	for _, c := range list {
		if c.Pending+c.Dead+c.Settled > 0 {
			return false
		}
	}

	return len(list) > 0 && !b.CountsAt.IsZero() && len(b.Missing) == 0
}

// firstCall returns the command for the first route whose notices need nothing special.
func (p *Pages) firstCall(r *http.Request, v Visitor) (out firstCall) {
	if !v.May(auth.Produce) {
		return out
	}

	for _, rt := range p.o.Routes.All() {
		key := firstKey(rt.Prefix)
		if !v.Covers(key) {
			continue
		}

		for _, url := range firstAddresses(rt) {
			content := notice.Content{URL: url, Body: []byte(firstBody), Audience: firstAudience(rt)}
			if len(rt.Misfits(&content)) > 0 {
				continue
			}

			out.Token = !p.o.Sessions.Open()
			out.Local, out.Example = strings.HasPrefix(url, "http://127."), strings.Contains(url, ".example/")
			out.Command = firstCommand(r, key, &content, out.Token)
			return out
		}
	}

	return out
}

const firstBody = `{"order": "1"}`

// firstKey returns a key of four segments under a prefix.
func firstKey(prefix string) string {
	for _, rest := range []string{":1", ":test:1"} {
		if keys.Valid(prefix + rest) {
			return prefix + rest
		}
	}
	return prefix + ":first:test:1"
}

// firstAddresses are addresses that a route may take. Other targets than a notice's url take none.
func firstAddresses(rt *route.Route) []string {
	if rt.Target.Kind != route.KindNotice {
		return []string{""}
	}
	return []string{"http://127.0.0.1:9000/", "https://shop.example/notify", "http://shop.example/notify"}
}

func firstAudience(rt *route.Route) string {
	if rt.Signs() == sign.PerAudience {
		return "shop-1"
	}
	return ""
}

// firstCommand returns the call for a POSIX shell. No value contains a quotation mark.
func firstCommand(r *http.Request, key string, c *notice.Content, token bool) string {
	scheme := "http"
	if auth.OriginOf(r).Secure {
		scheme = "https"
	}

	var b strings.Builder
	b.WriteString("curl -i '" + scheme + "://" + strings.ReplaceAll(r.Host, "'", "") + "/v1/notices'")
	if token {
		b.WriteString(` -H "Authorization: Bearer $NOTIFIER_TOKEN"`)
	}

	b.WriteString(" -d '{\n")
	for _, f := range []struct{ name, value string }{{"key", key}, {"delay", "5s"}, {"url", c.URL}, {"audience", c.Audience}} {
		if f.value != "" {
			b.WriteString(`  "` + f.name + `": "` + f.value + "\",\n")
		}
	}

	b.WriteString(`  "body": ` + firstBody + "\n}'")
	return b.String()
}

package cli

import (
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/seal"
)

func TestForgetCommand(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t, func(o *api.Options) { o.Routes.Prefix("app1:orders").Seal = seal.PerAudience })
	d.run(0, "schedule", "app1:orders:t:1", "--delay", "1h", "--to", "https://shop.example/", "--audience", "m17", "--body", "{}")
	_, errs := d.run(2, "forget", "--audience", "m17") // no answer
	contains(t, errs, "delete the keys of m17?", "nothing was changed")
	d.run(0, "schedule", "app1:orders:t:2", "--delay", "1h", "--to", "https://shop.example/", "--audience", "m17", "--body", "{}")

	out, errs := d.run(0, "forget", "--audience", "m17", "--yes")
	contains(t, out, "audience:m17 is forgotten since 2", "1 data key deleted", "notifier jobs job_")
	if errs != "" {
		t.Error(errs)
	}
	_, errs = d.run(1, "schedule", "app1:orders:t:3", "--to", "https://shop.example/", "--audience", "m17", "--body", "{}")
	contains(t, errs, "410", "notifier forget --lift")
	out, _ = d.run(0, "get", "app1:orders:t:1")
	contains(t, out, "forgotten")
	out, _ = d.run(0, "forget", "--audience", "m17", "--yes", "--json")
	contains(t, out, `"subject": "audience:m17"`, `"keys": 0`)

	for _, want := range []string{"audience:m17 takes new notices again", "audience:m17 was not forgotten"} {
		out, _ = d.run(0, "forget", "--audience", "m17", "--lift")
		contains(t, out, want)
	}
	out, _ = d.run(0, "forget", "--id", "app1:orders:1", "--lift", "--json")
	contains(t, out, `"changed": false`)
	if out, _ = d.run(0, "forget", "--id", "app1:orders:1", "--yes"); !strings.Contains(out, "id:app1:orders:1 is forgotten") {
		t.Error(out)
	}
	for _, wrong := range [][]string{{}, {"--audience", "a", "--id", "b"}, {"x"}} {
		d.run(2, append([]string{"forget"}, wrong...)...)
	}
}

// After a forget, an operator too gets the url without its query.
func TestGetSaysThatTheQueryIsSealed(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t, func(o *api.Options) { r := o.Routes.Prefix("app1:orders"); r.Seal, r.SealURL = seal.PerAudience, true })
	d.run(0, "schedule", "app1:orders:t:1", "--delay", "1h", "--to", "https://shop.example/paid?card=4111", "--audience", "m17")
	out, _ := d.run(0, "get", "app1:orders:t:1")
	if contains(t, out, "https://shop.example/paid?card=4111"); strings.Contains(out, "query sealed") {
		t.Error(out)
	}
	d.run(0, "forget", "--audience", "m17", "--yes")
	out, _ = d.run(0, "get", "app1:orders:t:1")
	if contains(t, out, "https://shop.example/paid (query sealed)", "forgotten"); strings.Contains(out, "=4111") {
		t.Error(out)
	}
}

package cli

import (
	"strings"
	"testing"
)

func TestPortalLinkCommand(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	out, errs := d.run(0, "portal-link", "app1:jobs", "--host", "shop.example", "--ttl", "8h")
	if !strings.HasPrefix(out, "http://127.0.0.1:") || !strings.Contains(out, "/ui/portal/") || strings.Count(out, "\n") != 1 {
		t.Errorf("the link does not stand alone: %q", out)
	}
	contains(t, errs, "valid until 20", "--revoke ")
	if strings.Contains(errs, "warning") {
		t.Errorf("%s", errs)
	}
	_, all := d.run(0, "portal-link", "app1:jobs")
	contains(t, all, "warning: it shows all notices under app1:jobs")
	id := strings.Fields(errs[strings.Index(errs, "--revoke ")+len("--revoke "):])[0]
	out, _ = d.run(0, "audit")
	contains(t, out, "portal-link", "link "+id+", of host shop.example")
	out, _ = d.run(0, "portal-link", "--revoke", id)
	contains(t, out, id+": revoked")
	_, errs = d.run(1, "portal-link", "--revoke", id)
	contains(t, errs, "404")
	out, _ = d.run(0, "portal-link", "--prefix", "app1", "--audience", "m17", "--json")
	contains(t, out, `"audience": "m17"`, `"expires_at"`, `"url"`)
	out, _ = d.run(0, "portal-link", "app1", "--host", "shop.example", "--label", "Shop Blue", "--resend", "--json")
	contains(t, out, `"label": "Shop Blue"`, `"resend": true`)
	_, errs = d.run(2, "portal-link", "app1", "--label", "Shop\tBlue")
	contains(t, errs, "--label", "printable")
	for _, wrong := range [][]string{{}, {"a", "b"}, {"a", "--revoke", "x"}, {"--revoke", "x", "--host", "y"}, {"a", "--ttl", "soon"},
		{"a", "--resend"}, {"a", "--audience", "m17", "--resend"}} {
		d.run(2, append([]string{"portal-link"}, wrong...)...)
	}
	_, errs = d.run(2, "portal-link", "a", "--ttl", "1s")
	contains(t, errs, "--ttl", "720h")
	_, errs = d.run(2, "portal-link", "a:b:c:d")
	contains(t, errs, "a:b:c:d", "has 4 segments")
	_, errs = d.run(2, "portal-link", "app1", "--prefix", "app1:jobs")
	contains(t, errs, "PREFIX once")
}

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"notifier/internal/api"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

func TestOpenCommand(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t, func(o *api.Options) { o.Routes.Prefix("app1:orders").Seal = seal.PerAudience })
	const key, body = "app1:orders:t:1", `{"card":"4111111111111111"}`
	d.run(0, "schedule", key, "--delay", "1h", "--to", "https://shop.example/", "--audience", "m17", "--body", body, "--header", "X-Card=7")
	out, _ := d.run(0, "open", key)
	if out != body {
		t.Error(out)
	}
	out, _ = d.run(0, "open", key, "--json")
	contains(t, out, `"X-Card": "7"`, `"state": "scheduled"`)

	sealed := d.engine.SealText("m17", key, notice.Content{Body: []byte("card\xff"), Headers: []notice.Header{{Name: "X-Card", Value: "7"}}})
	if out, _ = d.run(0, "open", key, sealed); out != "card\xff" {
		t.Errorf("%q", out)
	}
	d.stdin = sealed + "\n"
	if out, _ = d.run(0, "open", key, "-"); out != "card\xff" {
		t.Errorf("%q", out)
	}
	out, _ = d.run(0, "open", key, sealed, "--json")
	contains(t, out, `"X-Card": "7"`, `"body_base64": "Y2FyZP8="`)

	_, errs := d.run(2, "open", key+"0", sealed)
	contains(t, errs, "is of another notice")
	_, errs = d.run(1, "open", "app1:orders:t:2")
	contains(t, errs, "no notice is kept")
	_, errs = d.run(2, "open", key, "--keys")
	contains(t, errs, "--keys needs TEXT")
	_, errs = d.run(2, "open", key, sealed, "--keys")
	contains(t, errs, "NOTIFIER_SEAL_KEYS is not set")
	d.run(2, "open")

	d.run(0, "forget", "--audience", "m17", "--yes")
	_, errs = d.run(1, "open", key)
	contains(t, errs, "was forgotten on 2", "its content is gone")
	_, errs = d.run(1, "open", key, sealed)
	contains(t, errs, "410", "was forgotten on 2")
}

func TestOpenCommandWithKeys(t *testing.T) {
	t.Parallel()
	d, srv, _ := onRedis(t)
	d.env = append(d.env, "NOTIFIER_SEAL_KEYS="+testkit.SealKeys("k"), "NOTIFIER_URL=http://127.0.0.1:1")
	k := testkit.ServiceKeys(t, "k")
	v := vault.New(k, wire.New(wire.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}}))
	const key = "app1:orders:t:1"
	c := notice.Content{Body: []byte(`{"a":1}`), URL: "https://u:p@shop.example/", Headers: []notice.Header{{Name: "X-Token", Value: "7"}}}
	if err := v.Seal(t.Context(), 0, seal.RouteSubject("app1"), key, &c); err != nil {
		t.Fatal(err)
	}
	if out, _ := d.run(0, "open", key, c.Sealed, "--keys"); out != `{"a":1}` {
		t.Errorf("%q", out)
	}
	out, _ := d.run(0, "open", key, c.Sealed, "--keys", "--json")
	var got struct {
		URL     string
		Headers map[string]string
		Body    json.RawMessage
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.URL != "https://u:p@shop.example/" || got.Headers["X-Token"] != "7" ||
		!strings.Contains(string(got.Body), `"a"`) {
		t.Errorf("%s, %v", out, err)
	}
	_, errs := d.run(1, "open", key+"0", c.Sealed, "--keys")
	contains(t, errs, "cannot open the text", "another key or for another place")
	d.env = append(d.env, "NOTIFIER_SEAL_KEYS="+testkit.SealKeys("other"))
	_, errs = d.run(1, "open", key, c.Sealed, "--keys")
	contains(t, errs, "service key k: the service key is not configured")
}

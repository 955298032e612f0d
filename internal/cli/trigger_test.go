package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifier/client"
)

func TestTriggerSchedulesFromTemplate(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	out, _ := d.run(0, "trigger", "--list")
	contains(t, out, "trade.paid", "trade.refunded", "order.close", "amount=10.00")

	out, _ = d.run(0, "trigger", "trade.paid", "--set", "module=orders", "--set", `amount=12.50" ${n}`, "--count", "3", "--delay", "1h",
		"--to", "https://shop.example/hook")
	keys := strings.Fields(strings.ReplaceAll(out, "scheduled ", ""))
	if len(keys) != 3 || keys[0] == keys[1] || !strings.HasPrefix(keys[0], "app1:orders:paid:") {
		t.Fatalf("%q", keys)
	}
	got, _ := d.run(0, "get", keys[0], "--json")
	var n client.Notice
	if err := json.Unmarshal([]byte(got), &n); err != nil {
		t.Fatal(err)
	}
	var body struct{ Trade map[string]string }
	if err := json.Unmarshal(n.Body, &body); err != nil || body.Trade["amount"] != `12.50" ${n}` || n.URL != "https://shop.example/hook" {
		t.Errorf("%v: %s to %s", err, n.Body, n.URL)
	}

	file := filepath.Join(t.TempDir(), "parcel.json")
	if err := os.WriteFile(file,
		[]byte(`{"set":{"by":"post"},"notice":{"key":"app1:jobs:sent:${id}","delay":60,"body":{"n":"${n}","kg":1.50,"by":["${by}"]}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	out, _ = d.run(0, "trigger", file, "--json")
	var line struct{ Key string }
	if err := json.Unmarshal([]byte(out), &line); err != nil {
		t.Fatal(err)
	}
	got, _ = d.run(0, "get", line.Key, "--json")
	contains(t, got, `1.50`, `"post"`, `"n": "1"`)

	if err := os.WriteFile(file, []byte(`{"notice":{"key":"app1:jobs:sent:${nobody}"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"trigger":                             "want a template: order.close, trade.paid, trade.refunded",
		"trigger nosuch":                      `no template is named "nosuch"`,
		"trigger /nonesuch.json":              "no such file",
		"trigger trade.paid --set colour=red": "one of the names amount, app, currency, module",
		"trigger trade.paid --count 0":        "want 1 to 100000",
		"trigger " + file:                     "the template contains ${nobody}",
	} {
		_, errs := d.run(2, strings.Fields(line)...)
		contains(t, errs, want)
	}
	_, errs := d.run(2, "trigger", "trade.paid", "--set", "app=nobody")
	contains(t, errs, "nobody:trans:paid:")
}

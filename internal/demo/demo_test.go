package demo

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachOrderIsDelivered(t *testing.T) {
	for name, emulated := range map[string]bool{"redis-server or emulated": false, "emulated": true} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Run(context.Background(), Options{Out: &out, Emulated: emulated, Version: "test"}); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, want := range []string{"NOTICE", "demo:pay:notice:1003   5 ", "demo:order:close:2001", "delivered", "12 attempts", "5 rows in SQLite", "demo:pay:notice:1003 delivered: 500 ",
				"from the due instant to the arrival at the receiver"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			if emulated && !strings.Contains(out.String(), "emulated") {
				t.Errorf("it does not say that its redis is emulated:\n%s", out.String())
			}
		})
	}
}

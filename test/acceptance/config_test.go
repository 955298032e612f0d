package acceptance

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Everything that is wrong is said at once, with its remedy, and no secret.
func TestWrongConfigurationIsRefusedAtStart(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, "serve")
	cmd.Env = environment([][]string{{"NOTIFIER_GRACE=soon", "NOTIFIER_SHARD=4", "NOTIFIER_LISTEN=0.0.0.0:0",
		"NOTIFIER_REDIS_URL=redis://:hush-hush@/"},
		route("pay", "app1:pay:a:b:c", "ftp://x"), route("shop", "app2", "notice", "SECRET=whsec_c2hvcnQ=")})
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("%v, want exit code 2", err)
	}
	for _, name := range []string{"NOTIFIER_GRACE", "NOTIFIER_SHARD", "NOTIFIER_LISTEN", "NOTIFIER_ROUTE_PAY_PREFIX",
		"NOTIFIER_ROUTE_PAY_TARGET", "NOTIFIER_ROUTE_SHOP_SECRET"} {
		if !strings.Contains(string(out), name) {
			t.Errorf("%s is not named:\n%s", name, out)
		}
	}
	if strings.Contains(string(out), "hush") || strings.Contains(string(out), "c2hvcnQ") {
		t.Errorf("the output contains a secret:\n%s", out)
	}
}

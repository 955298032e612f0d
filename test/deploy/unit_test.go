package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"notifier/internal/config"
)

// The variables of the systemd unit are ones that the service reads, its credentials are
// loaded, it is stopped later than its handlers are, and started again whatever ended it.
func TestUnit(t *testing.T) {
	env, stop, loaded, set := map[string]string{}, "", map[string]bool{}, map[string]string{}
	for line := range strings.Lines(read(t, "deploy/notifier.service")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if variable, ok := strings.CutPrefix(name, "#   NOTIFIER_"); ok { // of the example of notifier.env
			env["NOTIFIER_"+variable] = value
		}
		set[name] = value
		switch name {
		case "Environment":
			for one := range strings.FieldsSeq(value) {
				variable, v, _ := strings.Cut(one, "=")
				env[variable] = v
			}
		case "LoadCredential":
			id, _, _ := strings.Cut(value, ":")
			loaded["%d/"+id] = true
		case "TimeoutStopSec":
			stop = value
		}
	}
	c, err := config.Load(envconfig.MapLookuper(env), environ(env), func(file string) ([]byte, error) {
		if !loaded[file] {
			t.Errorf("%s is not loaded", file)
		}
		if strings.Contains(file, "redis") {
			return []byte(standIn("REDIS_URL")), nil
		}
		return []byte(standIn("TOKEN")), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Clients) != 1 || len(c.Routes) != 1 || c.ShutdownDelay != 0 {
		t.Errorf("%+v", c)
	}
	if want := strings.TrimSuffix((c.ShutdownDelay + c.ShutdownTimeout + 5e9).String(), "s"); stop != want {
		t.Errorf("TimeoutStopSec is %s, want %s", stop, want)
	}
	if set["Restart"] != "always" || set["RestartSec"] == "" || set["StartLimitBurst"] == "" || set["RestartPreventExitStatus"] != "" {
		t.Errorf("not restarted after each end: %v", set)
	}

	// systemd's own checker, where it is installed. The program is not.
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	unit, err := filepath.Abs(root + "deploy/notifier.service")
	if err != nil {
		t.Fatal(err)
	}
	out, _ := exec.CommandContext(t.Context(), analyze, "verify", unit).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "notifier.service:") && !strings.Contains(line, "/usr/local/bin/notifier is not executable") &&
			!strings.Contains(line, "Failed to create") {
			t.Error(line)
		}
	}
}

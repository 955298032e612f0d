//go:build fault

package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// lockedUp is how the compose files and the Kubernetes manifest run the service.
var lockedUp = []string{"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"}

// importService makes an image of the program with the settings of the Dockerfile's last
// stage. Unlike a docker build, it needs no Go image.
func importService(t *testing.T) (image string) {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "notifier"), "notifier/cmd/notifier")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	image = fmt.Sprintf("notifier-test:%d", os.Getpid())
	file := read(t, "Dockerfile")
	args := []string{"import"}
	for line := range strings.Lines(file[strings.LastIndex(file, "\nFROM "):]) {
		if regexp.MustCompile(`^(USER|ENV|EXPOSE|ENTRYPOINT|CMD) `).MatchString(line) {
			args = append(args, "--change", strings.TrimSpace(line))
		}
	}
	tar, err := exec.Command("tar", "-C", dir, "-c", "notifier").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("docker", append(args, "-", image)...)
	c.Stdin = strings.NewReader(string(tar))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Cleanup(func() { _, _ = docker("rmi", "-f", image) })
	return image
}

func TestContainerRunsWithoutPrivileges(t *testing.T) {
	image := importService(t)
	db := testkit.StartRedis(t)
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("notifier-locked-%d", os.Getpid())
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	args := append([]string{"run", "-d", "--name", name, "--network", "host"}, lockedUp...)
	for _, v := range []string{fmt.Sprintf("LISTEN=127.0.0.1:%d", port), "REDIS_URL=" + db.URL(), "ROUTES=demo", "ROUTE_DEMO_PREFIX=demo",
		"ROUTE_DEMO_TARGET=log"} {
		args = append(args, "-e", "NOTIFIER_"+v)
	}
	t.Cleanup(func() { _, _ = docker("rm", "-f", name) })
	if out, err := docker(append(args, image)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	call := func(method, path, body string) (int, string) {
		r, err := http.NewRequest(method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = res.Body.Close() }()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	limit := time.Now().Add(time.Minute)
	until := func(what string, ok func() bool) {
		t.Helper()
		if !testkit.Within(time.Until(limit), ok) {
			logs, _ := docker("logs", name)
			t.Fatalf("not %s: %s", what, logs)
		}
	}
	until("ready", func() bool { status, _ := call("GET", "/readyz", ""); return status == 200 })
	if status, said := call("POST", "/v1/notices", `{"key":"demo:a:b:1","delay":"100ms"}`); status != 201 {
		t.Fatalf("%d %s", status, said)
	}
	until("delivered", func() bool {
		_, said := call("GET", "/v1/notices/demo:a:b:1", "")
		return strings.Contains(said, `"delivered"`)
	})

	pid, err := docker("inspect", "-f", "{{.State.Pid}}", name)
	if err != nil {
		t.Fatal(pid, err)
	}
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532", "Gid:\t65532\t65532\t65532\t65532", "CapInh:\t0000000000000000",
		"CapPrm:\t0000000000000000",
		"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), want+"\n") {
			t.Errorf("the process has not %q: %s", want, status)
		}
	}
	mounts, err := os.ReadFile("/proc/" + pid + "/mountinfo")
	if err != nil || !regexp.MustCompile(`(?m)^\d+ \d+ \S+ \S+ / ro[, ]`).Match(mounts) {
		t.Errorf("its root is not read-only: %s, %v", mounts, err)
	}
	for _, shell := range []string{"sh", "/bin/sh", "bash", "/bin/busybox"} {
		if out, err := docker("exec", name, shell, "-c", "true"); err == nil {
			t.Errorf("%s runs in the container: %s", shell, out)
		}
	}
	if out, err := docker("exec", name, "/notifier", "doctor", "--quick"); err != nil {
		t.Errorf("the health check: %v: %s", err, out)
	}
	if out, err := docker("stop", "-t", "30", name); err != nil {
		t.Error(out, err)
	}
	if code, err := docker("inspect", "-f", "{{.State.ExitCode}}", name); err != nil || code != "0" {
		t.Errorf("it ended with %s, %v", code, err)
	}
}

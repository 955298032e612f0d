package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// Build compiles a Go program of a module in moduleDir, and keeps it in bin for
// the cells that follow.
func Build(ctx context.Context, bin, name, moduleDir, pkg string) (string, error) {
	path := filepath.Join(bin, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil // bin lives as long as the run
	}

	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	cmd.Dir = moduleDir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s in %s: %w: %s", pkg, moduleDir, err, out)
	}

	return path, nil
}

// NATS starts the nats-server at path with JetStream in memory.
func NATS(ctx context.Context, path, dir string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}

	monitor, err := FreeAddr()
	if err != nil {
		return nil, err
	}

	args := []string{"-a", "127.0.0.1", "-p", port(addr), "-m", port(monitor), "-js", "-sd", filepath.Join(dir, "js")}
	return launch(ctx, Command{Name: "nats", Path: path, Args: args, Dir: dir, Addr: addr, Ready: httpOK("http://" + monitor + "/healthz")})
}

// Notifier starts an instance of this project on a Redis. Name, Path, Dir, Env and Line of the command are the caller's.
func Notifier(ctx context.Context, c Command, redis string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}

	c.Args, c.Addr, c.Ready = []string{"serve"}, addr, httpOK("http://"+addr+"/readyz")
	c.Env = append(c.Env, "NOTIFIER_REDIS_URL=redis://"+redis+"/0", "NOTIFIER_LISTEN="+addr)
	return launch(ctx, c)
}

func httpOK(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}

		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}

		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("%s answered %s", url, resp.Status)
		}

		return nil
	}
}

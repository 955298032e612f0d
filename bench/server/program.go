package server

import (
	"context"
	"errors"
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
	p, err := start(command{name: "nats", path: path, args: args, dir: dir, addr: addr})
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, httpOK("http://"+monitor+"/healthz")); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Program starts any program that listens at addr and waits for url to answer 200.
func Program(ctx context.Context, dir, name, path, addr, url string, env, args []string) (*Process, error) {
	p, err := start(command{name: name, path: path, args: args, env: env, dir: dir, addr: addr})
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, httpOK(url)); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
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

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
	return launch(ctx, command{name: "nats", path: path, args: args, dir: dir, addr: addr}, httpOK("http://"+monitor+"/healthz"))
}

// Service is a program that listens at an address.
type Service struct {
	Name string // of its log file
	Path string // of the program
	Args []string
	Env  []string
	Dir  string
	Addr string
	URL  string // answers 200 once it is ready
	// Line is called with each line of its standard error, from one goroutine, and may not
	// keep it; nil = the output goes to the log file.
	Line func(line []byte)
}

// Program starts a service and waits until it is ready.
func Program(ctx context.Context, s Service) (*Process, error) {
	return launch(ctx, command{name: s.Name, path: s.Path, args: s.Args, env: s.Env, dir: s.Dir, addr: s.Addr, line: s.Line}, httpOK(s.URL))
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

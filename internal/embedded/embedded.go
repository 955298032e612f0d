package embedded

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"notifier/internal/wire"
)

// Server is a running Redis.
type Server struct {
	// URL is the address in the form that go-redis parses.
	URL string
	// Kind describes the server: "redis-server 7.0.15 (/usr/bin/redis-server)" or "emulated in this process".
	Kind string
	// Emulated reports whether the server is the emulation.
	Emulated bool

	close func()
}

// Close stops the server and deletes its data.
func (s *Server) Close() { s.close() }

// Start runs a redis-server from PATH. Without one, or if it does not start, it runs the emulation.
func Start(ctx context.Context) (*Server, error) {
	if path, err := exec.LookPath("redis-server"); err == nil {
		if s, err := startProcess(ctx, path); err == nil {
			return s, nil
		}
	}
	return StartEmulated()
}

func startProcess(ctx context.Context, path string) (*Server, error) {
	dir, err := os.MkdirTemp("", "notifier-redis-")
	if err != nil {
		return nil, err
	}

	// A socket in a new directory cannot conflict with a port in use.
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no",
		"--notify-keyspace-events", "KEg$x", "--maxmemory-policy", "noeviction", "--daemonize", "no")
	setProcess(cmd)
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}

	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	stop := func() {
		_ = cmd.Process.Kill()
		<-done
		_ = os.RemoveAll(dir)
	}
	c, err := wire.Open(wire.Address{URL: "unix://" + socket})
	if err != nil {
		stop()
		return nil, err
	}

	defer func() { _ = c.Close() }()

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	for {
		info, err := c.InfoMap(ctx, "server").Result()
		if err == nil {
			version := info["Server"]["redis_version"]
			return &Server{URL: "unix://" + socket, Kind: "redis-server " + version + " (" + path + ")", close: stop}, nil
		}

		select {
		case <-done:
			_ = os.RemoveAll(dir)
			return nil, fmt.Errorf("%s exited at once", path)
		case <-ctx.Done():
			stop()
			return nil, fmt.Errorf("%s does not answer: %w", path, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}

	defer func() { _ = l.Close() }()

	a, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return "", fmt.Errorf("not a TCP address")
	}

	return "127.0.0.1:" + strconv.Itoa(a.Port), nil
}

package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
)

// images lists the images in order of preference: the one that scripts/test-image.sh builds, then the public
// one.
const (
	repository  = "redis"
	localTag    = "local"
	publicTag   = "7-alpine"
	pullTimeout = 30 * time.Second
	bootTimeout = 10 * time.Second
)

// container is a Redis in Docker.
type container struct {
	pool  *dockertest.Pool
	res   *dockertest.Resource
	addr  string
	guard *guard
}

// newContainer runs a Redis with dockertest on the host's network, because the nodes of a cluster and replicas
// announce the port on which they listen. Docker Desktop has such a network only if its setting "Enable host
// networking" is on.
func newContainer(s *settings) (*container, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	// NewPool does not check whether a daemon runs; Ping does.
	if err := pool.Client.Ping(); err != nil {
		return nil, fmt.Errorf("docker does not answer: %w", err)
	}

	defer pool.Client.HTTPClient.CloseIdleConnections()

	tag, err := image(pool)
	if err != nil {
		return nil, err
	}

	for range 5 {
		var c *container
		if c, err = run(pool, tag, s); err == nil {
			return c, nil
		}

		if errors.Is(err, errNoHostNetwork) {
			break
		}
	}

	return nil, fmt.Errorf("run %s:%s: %w", repository, tag, err)
}

var errNoHostNetwork = errors.New(`nothing listens on this machine's port; Docker Desktop needs its setting "Enable host networking"`)

// listens waits until the server accepts connections. It fails with errNoHostNetwork if the server runs and does not
// within the limit.
func (c *container) listens(limit time.Duration) error {
	defer c.idle()
	for deadline := time.Now().Add(limit); ; pause() {
		conn, err := net.Dial("tcp", c.addr)
		if err == nil {
			return conn.Close()
		}
		if in, err := c.pool.Client.InspectContainer(c.id()); err == nil && !in.State.Running {
			return fmt.Errorf("the server ended:\n%s", c.logs())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: %w", errNoHostNetwork, err)
		}
	}
}

// image returns the tag of an available image, and pulls it if needed.
func image(pool *dockertest.Pool) (string, error) {
	for _, tag := range []string{localTag, publicTag} {
		if _, err := pool.Client.InspectImage(repository + ":" + tag); err == nil {
			return tag, nil
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), pullTimeout)
	defer cancel()

	err := pool.Client.PullImage(dc.PullImageOptions{Context: ctx, Repository: repository, Tag: publicTag}, dc.AuthConfiguration{})
	if err != nil {
		return "", fmt.Errorf("neither is there an image %s:%s (scripts/test-image.sh makes it) nor can %s:%s be pulled: %w",
			repository, localTag, repository, publicTag, err)
	}

	return publicTag, nil
}

// run starts a container and waits until its server accepts connections.
func run(pool *dockertest.Pool, tag string, s *settings) (*container, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}

	o := &dockertest.RunOptions{
		Name: "redistest-" + strings.ToLower(rand.Text()), Repository: repository, Tag: tag,
		Cmd:    arguments(s, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", "/data"),
		Labels: map[string]string{"notifier": "redistest"},
	}
	if s.aofDir != "" {
		o.Mounts = []string{s.aofDir + ":/data"}
	}

	for _, file := range s.files {
		o.Mounts = append(o.Mounts, file+":"+file+":ro")
	}

	res, err := pool.RunWithOptions(o, func(h *dc.HostConfig) {
		h.PublishAllPorts, h.NetworkMode = false, "host"
	})
	if err != nil {
		// The container may exist without running.
		_ = pool.RemoveContainerByName(o.Name)
		return nil, err
	}

	c := &container{pool: pool, res: res, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if docker, err := exec.LookPath("docker"); err == nil {
		c.guard, err = newGuard(docker + " rm -f " + res.Container.ID + " >/dev/null 2>&1")
		if err != nil {
			c.remove()
			return nil, err
		}
	}

	if err := c.listens(bootTimeout); err != nil {
		c.remove()
		return nil, err
	}

	return c, nil
}

func (c *container) address() string { return c.addr }
func (c *container) id() string      { return c.res.Container.ID }
func (c *container) idle()           { c.pool.Client.HTTPClient.CloseIdleConnections() }

func (c *container) start() error {
	defer c.idle()
	return c.pool.Client.StartContainer(c.id(), nil)
}

func (c *container) kill() error {
	defer c.idle()

	if in, err := c.pool.Client.InspectContainer(c.id()); err == nil && in.State.Paused {
		if err := c.pool.Client.UnpauseContainer(c.id()); err != nil {
			return err
		}
	}

	err := c.pool.Client.KillContainer(dc.KillContainerOptions{ID: c.id(), Signal: dc.SIGKILL})
	if stopped := (*dc.ContainerNotRunning)(nil); errors.As(err, &stopped) {
		return nil
	}
	if err != nil {
		return err
	}

	_, err = c.pool.Client.WaitContainer(c.id())
	return err
}

func (c *container) pause() error   { defer c.idle(); return c.pool.Client.PauseContainer(c.id()) }
func (c *container) unpause() error { defer c.idle(); return c.pool.Client.UnpauseContainer(c.id()) }

func (c *container) remove() {
	defer c.idle()
	c.guard.release()
	c.guard = nil
	_ = c.pool.Client.RemoveContainer(dc.RemoveContainerOptions{ID: c.id(), Force: true, RemoveVolumes: true})
}

func (c *container) logs() string {
	defer c.idle()

	var b strings.Builder
	err := c.pool.Client.Logs(dc.LogsOptions{Container: c.id(), OutputStream: &b, ErrorStream: &b, Stdout: true, Stderr: true, Tail: "40"})
	if err != nil {
		return err.Error()
	}

	return b.String()
}

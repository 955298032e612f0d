//go:build fault

package deploy

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gopkg.in/yaml.v3"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
	"notifier/test/record"
)

// service is the part of a service in a compose file that this test uses.
type service struct {
	Image       string            `yaml:"image"`
	Command     []string          `yaml:"command"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Environment map[string]string `yaml:"environment"`
	Secrets     []string          `yaml:"secrets"`
	Volumes     []string          `yaml:"volumes"`
	Networks    yaml.Node         `yaml:"networks"`
	hardening   `yaml:",inline"`
}

// composed are the Redis servers of a compose file, as containers. The service
// itself runs in this process, on the environment of notifier1.
type composed struct {
	t        *testing.T
	name     string // of the network, and the prefix of all containers
	dir      string // a copy of deploy with its secrets
	services map[string]service
}

func docker(args ...string) (string, error) {
	out, err := exec.Command("docker", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c *composed) docker(args ...string) string {
	c.t.Helper()
	out, err := docker(args...)
	if err != nil {
		c.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// compose starts the Redis servers of a compose file one after the other.
func compose(t *testing.T, file string) *composed {
	t.Helper()
	var f struct {
		Services map[string]service `yaml:"services"`
		Networks map[string]struct {
			Ipam struct {
				Config []struct{ Subnet string }
			}
		} `yaml:"networks"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/"+file)), &f); err != nil {
		t.Fatal(err)
	}
	c := &composed{t: t, name: fmt.Sprintf("notifier-test-%d", os.Getpid()), dir: filepath.Join(secrets(t), "deploy"), services: f.Services}
	t.Cleanup(c.down)
	c.docker("network", "create", "--internal", "--subnet", f.Networks["redis"].Ipam.Config[0].Subnet, c.name)
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		if s := c.services[name]; strings.HasPrefix(name, "redis") || strings.HasPrefix(name, "sentinel") {
			c.up(name, s)
		}
	}
	if s, ok := c.services["create"]; ok {
		c.up("create", s)
	}
	return c
}

func (c *composed) up(name string, s service) {
	c.t.Helper()
	args := []string{"run", "-d", "--name", c.name + "-" + name, "--network", c.name, "--ip", address(c.t, s)}
	args = append(args, s.flags()...)
	for _, secret := range s.Secrets {
		args = append(args, "-v", filepath.Join(c.dir, "secrets", secret)+":/run/secrets/"+secret+":ro")
	}
	for _, v := range s.Volumes {
		from, to, _ := strings.Cut(v, ":")
		if strings.HasPrefix(from, "./") {
			from = filepath.Join(c.dir, from)
		} else {
			from = c.name + "-" + from
		}
		args = append(args, "-v", from+":"+to)
	}
	if name == "create" {
		args = append(args, "--restart", "on-failure") // until all servers answer
	}
	if len(s.Entrypoint) > 0 {
		args = append(args, "--entrypoint", s.Entrypoint[0])
	}
	args = append(args, "redis:local")
	for _, a := range append(s.Entrypoint[min(1, len(s.Entrypoint)):], s.Command...) {
		args = append(args, strings.ReplaceAll(a, "$$", "$"))
	}
	c.docker(args...)
}

// address is the fixed address of a service.
func address(t *testing.T, s service) string {
	t.Helper()
	var n struct {
		Redis struct {
			Address string `yaml:"ipv4_address"`
		} `yaml:"redis"`
	}
	if err := s.Networks.Decode(&n); err != nil {
		t.Fatal(err)
	}
	return n.Redis.Address
}

// down removes everything that compose created. After a failed test it first prints the logs.
func (c *composed) down() {
	for name := range c.services {
		if c.t.Failed() {
			if out, err := docker("logs", "--tail", "20", c.name+"-"+name); err == nil {
				c.t.Logf("%s:\n%s", name, out)
			}
		}
		_, _ = docker("rm", "-f", "-v", c.name+"-"+name)
		_, _ = docker("volume", "rm", "-f", c.name+"-"+name)
	}
	_, _ = docker("network", "rm", c.name)
}

// replicated waits until redis1 has a complete replica. Without one, a master that is cut off
// could not be replaced.
func (c *composed) replicated() {
	c.t.Helper()
	password, err := os.ReadFile(filepath.Join(c.dir, "secrets/admin_password"))
	if err != nil {
		c.t.Fatal(err)
	}
	r := redis.NewClient(&redis.Options{Addr: address(c.t, c.services["redis1"]) + ":6379", Username: "admin",
		Password: strings.TrimSpace(string(password))})
	defer func() { _ = r.Close() }()
	await(c.t, func() bool { return strings.Contains(r.Info(c.t.Context(), "replication").Val(), "state=online") })
}

// environ is the environment of notifier1 for this process: its secrets are
// files here, and it calls a receiver of the test.
func (c *composed) environ(receiver string) map[string]string {
	env := maps.Clone(c.services["notifier1"].Environment)
	for k, v := range env {
		env[k] = strings.Replace(v, "/run/secrets/", filepath.Join(c.dir, "secrets")+"/", 1)
	}
	env["NOTIFIER_LISTEN"], env["NOTIFIER_METRICS_LISTEN"] = "127.0.0.1:0", "127.0.0.1:0"
	env["NOTIFIER_ROUTE_ORDERS_TARGET"] = receiver
	return env
}

// The master's network is disconnected. Unlike a killed master, it keeps running, and its
// clients get no error.
func TestComposeVariantsSurviveNetworkPartition(t *testing.T) {
	for _, file := range []string{"compose.sentinel.yaml", "compose.cluster.yaml"} {
		t.Run(file, func(t *testing.T) {
			begun := time.Now()
			var mu sync.Mutex
			came := map[string]int{}
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				came[r.Header.Get("notifier-key")]++
			}))
			defer receiver.Close()
			c := compose(t, file)
			c.replicated()
			p, stop := serve(t, c.environ(receiver.URL))
			defer stop()
			accepted := 0
			schedule := func(delay time.Duration) {
				key := fmt.Sprintf("shop:orders:paid:%d", accepted)
				await(t, func() bool {
					_, err := p.Schedule(t.Context(), store.Request{Key: key, Delay: delay, Content: notice.Content{Body: []byte(`{}`)}})
					if err != nil && !errors.Is(err, wire.ErrUnavailable) {
						t.Fatalf("%s: %v", key, err)
					}
					return err == nil
				})
				accepted++
			}
			for range 200 {
				schedule(5 * time.Second)
			}
			c.docker("network", "disconnect", c.name, c.name+"-redis1")
			pulled := time.Now()
			for range 200 {
				schedule(0)
			}
			back := time.Since(pulled)
			t.Logf("%s: 200 calls accepted %.1f s after the cable was pulled", file, back.Seconds())
			await(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(came) == accepted
			})
			c.docker("network", "connect", "--ip", address(t, c.services["redis1"]), c.name, c.name+"-redis1")
			for range 50 {
				schedule(time.Second)
			}
			await(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(came) == accepted
			})
			twice := 0
			for _, n := range came {
				twice += n - 1
			}
			t.Logf("%s: %d accepted, %d delivered, %d twice", file, accepted, len(came), twice)
			no := map[string]string{"compose.sentinel.yaml": "14.1", "compose.cluster.yaml": "14.2"}[file]
			record.Fault{No: no, Fault: "containers of deploy/" + file + ": a cable is pulled (`docker network disconnect`)",
				Settings: "as the file says; the containers are started by the docker command, the service runs in the test's process",
				Counts:   &record.Counts{Notices: accepted, Lost: accepted - len(came), Doubled: twice}, Aim: "0 lost",
				Found:  fmt.Sprintf("200 calls, each repeated until it was taken, were taken %s after the cable was pulled", record.Short(back)),
				Server: "image redis:local", From: begun}.Put(t)
			if twice > 200 {
				t.Errorf("%d came twice, and at most 200 were in flight", twice)
			}
		})
	}
}

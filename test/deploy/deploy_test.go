package deploy

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"
	"go.uber.org/goleak"
	"gopkg.in/yaml.v3"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root = "../../"

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(root + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRedisConf(t *testing.T) {
	c := deployed(t).Client()
	for name, want := range map[string]string{
		"notify-keyspace-events": "xE", "appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "maxmemory": "2147483648",
		"save": "",
	} {
		if got := c.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// The shipped user touches the keys of the service and of the example routes only.
func TestShippedUserIsLimitedToItsKeys(t *testing.T) {
	c := deployed(t).Client()
	// Commands that the client library sends to a cluster.
	for _, good := range [][]any{{"CLUSTER", "SLOTS"}, {"ASKING"}} {
		if reply := c.Do(t.Context(), append([]any{"ACL", "DRYRUN", "notifier"}, good...)...).String(); !strings.HasSuffix(reply, ": OK") {
			t.Errorf("%v: %s", good, reply)
		}
	}
	// Commands that delete all data, or access other keys, are refused.
	for _, bad := range [][]any{{"GET", "session:1"}, {"DEL", "shop:carts:1"}, {"CONFIG", "GET", "requirepass"},
		{"CONFIG", "SET", "maxmemory", "1mb"}, {"FLUSHALL"}, {"FLUSHDB"}, {"KEYS", "*"}, {"SHUTDOWN"}, {"DEBUG", "SLEEP", "0"},
		{"CONFIG", "REWRITE"},
		{"ACL", "SETUSER", "x"}, {"SWAPDB", 0, 1}, {"REPLICAOF", "a", 1}, {"CLIENT", "KILL", "a:1"}} {
		reply := c.Do(t.Context(), append([]any{"ACL", "DRYRUN", "notifier"}, bad...)...).String()
		if !strings.Contains(reply, "no permissions") && !strings.Contains(reply, "can't run") {
			t.Errorf("%v: %s", bad, reply)
		}
	}
}

// The whole service under the rights of its user, retry and all.
func TestServiceRunsAsItsUser(t *testing.T) {
	env := map[string]string{
		"NOTIFIER_ROUTES":    "list,stream,log",
		"NOTIFIER_LISTEN":    "127.0.0.1:0",
		"NOTIFIER_RETENTION": "1h",
		"NOTIFIER_SHARDS":    "2",
	}
	for name, target := range map[string]string{"LIST": "list:todo", "STREAM": "stream:events", "LOG": "log"} {
		env["NOTIFIER_ROUTE_"+name+"_PREFIX"] = strings.ToLower(name)
		env["NOTIFIER_ROUTE_"+name+"_TARGET"] = target
		env["NOTIFIER_ROUTE_"+name+"_ADOPT"] = "true"
	}
	s := deployedFor(t, env)
	p, stop := serve(t, env)
	defer stop()
	ctx := t.Context()
	for _, key := range []string{"list:a:b:1", "stream:a:b:1", "log:a:b:1"} {
		var err error
		await(t, func() bool {
			_, err = p.Schedule(ctx, store.Request{Key: key, Delay: 20 * time.Millisecond, Content: notice.Content{Body: []byte(`{}`)}})
			return !errors.Is(err, wire.ErrUnavailable)
		})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	r := s.Client()
	await(t, func() bool { return r.LLen(ctx, "todo").Val() == 1 && r.XLen(ctx, "events").Val() == 1 })
	// A plain timer that the route adopts.
	if err := r.Set(ctx, "list:a:b:2", "plain", 2*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return r.LLen(ctx, "todo").Val() == 2 })
	if _, err := p.Cancel(ctx, "log:a:b:1"); err != nil {
		t.Error(err)
	}
	if _, err := p.List(ctx, store.Query{Routes: []string{"list", "stream", "log"}, Limit: 10}); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Counts(ctx); err != nil {
		t.Error(err)
	}
	if err := p.Pause(ctx, "log"); err != nil {
		t.Error(err)
	}
	if err := p.Resume(ctx, "log"); err != nil {
		t.Error(err)
	}
	if n := r.StrLen(ctx, "notifier:key").Val(); n != 32 {
		t.Errorf("the service's own key has %d bytes, want 32", n)
	}
	tapped, err := p.OpenTap(ctx, "ops", "")
	if err != nil {
		t.Fatal(err)
	}
	if e := <-tapped.Events(); !e.Ready || e.Instances != 1 {
		t.Errorf("%+v, want a tap that is ready with one instance", e)
	}
	if _, err := p.Schedule(ctx, store.Request{Key: "log:a:b:2", Content: notice.Content{Body: []byte(`{}`)}}); err != nil {
		t.Error(err)
	}
	if e := <-tapped.Events(); e.Copy == nil || e.Copy.Key != "log:a:b:2" {
		t.Errorf("%+v, want the copy of log:a:b:2", e)
	}
	tapped.Close()

	// Redis logs refused commands.
	entries, err := r.ACLLog(ctx, 20).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Username == "notifier" {
			t.Errorf("refused to the user notifier: %s %s", e.Reason, e.Object)
		}
	}
}

func await(t *testing.T, ok func() bool) {
	t.Helper()
	testkit.Until(t, "it happens", ok)
}

func environ(env map[string]string) []string {
	var list []string
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	return list
}

func TestCompose(t *testing.T) {
	for file, name := range map[string]string{"compose.yaml": "notifier", "compose.sentinel.yaml": "notifier1",
		"compose.cluster.yaml": "notifier2"} {
		t.Run(file, func(t *testing.T) { composeIsWhole(t, "deploy/"+file, name) })
	}
}

// composeIsWhole checks that a compose file refers only to existing files and secrets. name
// is its notifier service.
func composeIsWhole(t *testing.T, file, name string) {
	t.Helper()
	var c struct {
		Services map[string]struct {
			Image       string            `yaml:"image"`
			Environment map[string]string `yaml:"environment"`
			Secrets     []string          `yaml:"secrets"`
			Volumes     []string          `yaml:"volumes"`
			Ports       []string          `yaml:"ports"`
			hardening   `yaml:",inline"`
		} `yaml:"services"`
		Secrets map[string]struct {
			File string `yaml:"file"`
		} `yaml:"secrets"`
	}
	if err := yaml.Unmarshal([]byte(read(t, file)), &c); err != nil {
		t.Fatal(err)
	}
	service := c.Services[name]
	load(t, service.Environment)
	if at := service.Environment["NOTIFIER_METRICS_LISTEN"]; at == "" || !slices.ContainsFunc(service.Ports, func(p string) bool {
		return strings.HasPrefix(p, "127.0.0.1:") && strings.HasSuffix(p, at)
	}) {
		t.Errorf("the metrics are at %q, and this machine does not reach them: %v", at, service.Ports)
	}
	for name, s := range c.Services {
		if !s.whole() {
			t.Errorf("%s is not locked up: %+v", name, s.hardening)
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File != "./secrets/"+secret {
				t.Errorf("%s: secret %s is not described", name, secret)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(root + "deploy/" + from); strings.HasPrefix(from, "./") && err != nil {
				t.Errorf("%s mounts %s, which is not there: %v", name, from, err)
			}
		}
		for _, p := range s.Ports {
			if host, _, err := net.SplitHostPort(p); err == nil && !strings.HasPrefix(host, "127.0.0.1") {
				t.Errorf("%s is published to the network: %s", name, p)
			}
		}
	}
	script := read(t, "scripts/secrets.sh")
	for name := range c.Secrets {
		if !strings.Contains(script, "keep "+name+" ") && !strings.Contains(script, "renew "+name+" ") {
			t.Errorf("scripts/secrets.sh does not make %s", name)
		}
	}
}

// The profile observe is whole: spans go to the collector and on to Tempo, Prometheus keeps exemplars, and those of the
// dashboard link to Tempo.
func TestComposeObserve(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Profiles    []string          `yaml:"profiles"`
			Command     []string          `yaml:"command"`
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	var sources struct {
		Sources []struct {
			UID  string `yaml:"uid"`
			Type string `yaml:"type"`
			URL  string `yaml:"url"`
			Data struct {
				Exemplars []struct {
					Name string `yaml:"name"`
					UID  string `yaml:"datasourceUid"`
				} `yaml:"exemplarTraceIdDestinations"`
			} `yaml:"jsonData"`
		} `yaml:"datasources"`
	}
	for file, into := range map[string]any{"deploy/compose.yaml": &compose, "deploy/observe/grafana/datasources.yaml": &sources} {
		if err := yaml.Unmarshal([]byte(read(t, file)), into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}

	var observe []string
	for name, s := range compose.Services {
		if slices.Contains(s.Profiles, "observe") {
			observe = append(observe, name)
		}
	}
	slices.Sort(observe)
	if want := []string{"collector", "grafana", "prometheus", "tempo"}; !slices.Equal(observe, want) {
		t.Errorf("the profile has %v, want %v", observe, want)
	}
	if !slices.Contains(compose.Services["prometheus"].Command, "--enable-feature=exemplar-storage") {
		t.Error("Prometheus keeps no exemplars")
	}
	if _, ok := compose.Services["notifier"].Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]; !ok {
		t.Error("the endpoint of the collector does not reach notifier")
	}

	at := map[string]string{}
	for _, s := range sources.Sources {
		at[s.UID] = s.URL
		for _, e := range s.Data.Exemplars {
			if e.Name != "trace_id" || e.UID != "tempo" {
				t.Errorf("exemplars link %s to %s", e.Name, e.UID)
			}
		}
	}
	if len(sources.Sources[0].Data.Exemplars) != 1 || at["tempo"] != "http://tempo:3200" || at["prometheus"] != "http://prometheus:9090" {
		t.Errorf("%+v", sources)
	}
	if !strings.Contains(read(t, "deploy/observe/collector.yaml"), "endpoint: http://tempo:4318") {
		t.Error("the collector does not export to Tempo")
	}
	if n := strings.Count(read(t, "deploy/grafana/notifier.json"), `"exemplar": true`); n < 2 {
		t.Errorf("%d queries of the dashboard ask for exemplars, want those of lateness and handler time", n)
	}
}

// hardening is how a container of a compose file is locked up.
type hardening struct {
	User     string   `yaml:"user"`
	ReadOnly bool     `yaml:"read_only"`
	CapDrop  []string `yaml:"cap_drop"`
	Security []string `yaml:"security_opt"`
	Memory   string   `yaml:"mem_limit"`
	Logging  struct {
		Options map[string]string `yaml:"options"`
	} `yaml:"logging"`
}

func (h hardening) whole() bool {
	return h.ReadOnly && slices.Equal(h.CapDrop, []string{"ALL"}) && slices.Equal(h.Security, []string{"no-new-privileges:true"}) &&
		h.Memory != "" && h.Logging.Options["max-size"] != "" && h.Logging.Options["max-file"] != ""
}

// flags are the options of docker run that do the same.
func (h hardening) flags() []string {
	list := []string{"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--memory", h.Memory}
	if h.User != "" {
		list = append(list, "--user", h.User)
	}
	return list
}

func TestKubernetes(t *testing.T) {
	kinds := map[string]bool{}
	docs := yaml.NewDecoder(strings.NewReader(read(t, "deploy/kubernetes.yaml")))
	for {
		var d struct {
			Kind string `yaml:"kind"`
			Spec struct {
				Ingress []struct {
					From  []any `yaml:"from"`
					Ports []struct {
						Port string `yaml:"port"`
					} `yaml:"ports"`
				} `yaml:"ingress"`
				Replicas int `yaml:"replicas"`
				Template struct {
					Metadata struct {
						Annotations map[string]string `yaml:"annotations"`
					} `yaml:"metadata"`
					Spec struct {
						Containers []struct {
							Ports []struct {
								Name          string `yaml:"name"`
								ContainerPort int    `yaml:"containerPort"`
							} `yaml:"ports"`
							Env []struct {
								Name      string         `yaml:"name"`
								Value     string         `yaml:"value"`
								ValueFrom map[string]any `yaml:"valueFrom"`
							} `yaml:"env"`
							ReadinessProbe map[string]any `yaml:"readinessProbe"`
							LivenessProbe  map[string]any `yaml:"livenessProbe"`
						} `yaml:"containers"`
					} `yaml:"spec"`
				} `yaml:"template"`
			} `yaml:"spec"`
		}
		err := docs.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds[d.Kind] = true
		for _, in := range d.Spec.Ingress {
			if in.Ports[0].Port == "metrics" && len(in.From) == 0 {
				t.Error("every pod reaches the metrics")
			}
		}
		if d.Kind != "Deployment" {
			continue
		}
		box := d.Spec.Template.Spec.Containers[0]
		if d.Spec.Replicas != 2 || box.ReadinessProbe == nil || box.LivenessProbe == nil {
			t.Errorf("%+v", d.Spec)
		}
		env := map[string]string{}
		for _, e := range box.Env {
			env[e.Name] = e.Value
			if e.ValueFrom != nil {
				env[e.Name] = standIn(e.Name)
			}
		}
		load(t, env)
		// The scraped address of the annotations must answer without a token.
		notes := d.Spec.Template.Metadata.Annotations
		if notes["prometheus.io/scrape"] != "true" || notes["prometheus.io/path"] != "/metrics" ||
			":"+notes["prometheus.io/port"] != env["NOTIFIER_METRICS_LISTEN"] {
			t.Errorf("Prometheus is sent to %v, the metrics are at %q", notes, env["NOTIFIER_METRICS_LISTEN"])
		}
		for _, port := range box.Ports {
			if name := map[string]string{"http": "NOTIFIER_LISTEN", "metrics": "NOTIFIER_METRICS_LISTEN"}[port.Name]; env[name] != ":"+
				strconv.Itoa(port.ContainerPort) {
				t.Errorf("port %s is %d, and %s %s", port.Name, port.ContainerPort, name, env[name])
			}
		}
	}
	for _, k := range []string{"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"} {
		if !kinds[k] {
			t.Errorf("no %s", k)
		}
	}
}

// standIn is a value such as a secret of that name would have.
func standIn(name string) string {
	switch {
	case strings.Contains(name, "REDIS_URL"):
		return "redis://u:p@redis:6379/0"
	case strings.Contains(name, "_SECRET"):
		return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s"), 32))
	}
	return name + strings.Repeat("t", 32)
}

// load loads the configuration from an environment, as the service does at start.
func load(t *testing.T, env map[string]string) {
	t.Helper()
	if len(env) < 5 {
		t.Fatalf("only %d variables were found", len(env))
	}
	byFile := map[string]string{}
	for name, value := range env {
		byFile[value] = strings.TrimSuffix(name, "_FILE")
	}
	c, err := config.Load(envconfig.MapLookuper(env), environ(env), func(file string) ([]byte, error) {
		text := standIn(byFile[file])
		if strings.HasSuffix(file, "_sentinel") {
			text += "?master_name=notifier"
		}
		return []byte(text), nil
	})
	if err != nil {
		t.Error(err)
		return
	}
	var clients []string
	for _, cl := range c.Clients {
		clients = append(clients, fmt.Sprintf("%s %s %q", cl.Name, cl.Role, cl.Prefix))
	}
	if want := []string{`ops operate ""`, `shop produce "shop"`}; !slices.Equal(clients, want) {
		t.Errorf("clients %q, want %q", clients, want)
	}
}

func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	if strings.Contains(text, "syntax=") || strings.Contains(text, "--mount") {
		t.Error("the classic builder cannot read it")
	}
	for _, want := range []string{"ARG BUILD_IMAGE=", "ARG RUN_IMAGE=", `CMD ["/notifier", "doctor", "--quick"]`,
		"-X main.version=${VERSION}", "-X main.revision=${REVISION}", "org.opencontainers.image.version=${VERSION}"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if !regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).MatchString(text) {
		t.Error("no user by number other than root")
	}
}

package helm

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const (
	chart   = "../../deploy/helm/notifier"
	example = "../../deploy/helm/example-values.yaml"
	static  = "../../deploy/kubernetes.yaml"
)

var update = flag.Bool("update", false, "write deploy/kubernetes.yaml")

// values are the example's, changed by further YAML documents.
func values(t *testing.T, changes ...string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, text := range append([]string{string(raw)}, changes...) {
		var v map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		all = chartutil.CoalesceTables(v, all)
	}
	return all
}

// render renders the chart as helm template does. The order is that of the documents in
// deploy/kubernetes.yaml.
func render(t *testing.T, v map[string]any) ([]string, error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "notifier", Namespace: "default", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}

	var docs []string
	for _, name := range []string{"deployment", "service", "poddisruptionbudget", "networkpolicy", "servicemonitor", "horizontalpodautoscaler",
		"prometheusrule"} {
		text, ok := files["notifier/templates/"+name+".yaml"]
		if !ok {
			t.Fatalf("the chart has no template %s", name)
		}
		delete(files, "notifier/templates/"+name+".yaml")
		for doc := range strings.SplitSeq(text, "\n---\n") {
			if doc = strings.TrimSpace(doc); doc != "" {
				docs = append(docs, doc+"\n")
			}
		}
	}
	delete(files, "notifier/templates/_helpers.tpl")
	if len(files) > 0 {
		t.Errorf("templates that no test renders: %v", files)
	}
	return docs, nil
}

// decoded are the objects of rendered documents, by kind. Unknown fields are errors.
func decoded(t *testing.T, docs []string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, doc := range docs {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		into := map[string]any{"Deployment": &apps.Deployment{}, "Service": &core.Service{}, "PodDisruptionBudget": &policy.PodDisruptionBudget{},
			"NetworkPolicy": &networking.NetworkPolicy{}, "HorizontalPodAutoscaler": &autoscaling.HorizontalPodAutoscaler{},
			"ServiceMonitor": &monitoring.ServiceMonitor{}, "PrometheusRule": &monitoring.PrometheusRule{}}[kind.Kind]
		if into == nil {
			t.Fatalf("kind %q", kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
			t.Errorf("%s: %v\n%s", kind.Kind, err, doc)
		}
		all[kind.Kind] = into
	}
	return all
}

func TestLint(t *testing.T) {
	r := lint.All(chart, values(t), "default", true)
	for _, m := range r.Messages {
		if m.Severity > 1 || !strings.Contains(m.Err.Error(), "icon is recommended") {
			t.Errorf("%s: %v", m.Path, m.Err)
		}
	}
}

// What each value adds decodes strictly.
func TestValuesRender(t *testing.T) {
	everything := `
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
autoscaling: {enabled: true}
env: [{name: NOTIFIER_LOG_ATTEMPTS, value: failed}]
resources: {}
`
	cases := map[string][]string{"example": nil, "everything": {everything}, "sentinel": {"redis: {mode: sentinel}"},
		"cluster":  {"redis: {mode: cluster}"},
		"postgres": {"history: {kind: postgres}"}, "sqlite": {"replicaCount: 1\nhistory: {kind: sqlite, claim: notifier}"},
		"little": {"podDisruptionBudget: {enabled: false}\nnetworkPolicy: {enabled: false}\ntopologySpread: false\nscrapeAnnotations: false"},
		"routes": {`routes: [{name: a-b, prefix: app1, target: "list:todo", settings: {CONCURRENCY: 8, ADOPT: true, RETRY: "15s,3m"}}]`}}
	for name, changes := range cases {
		t.Run(name, func(t *testing.T) {
			docs, err := render(t, values(t, changes...))
			if err != nil {
				t.Fatal(err)
			}
			all := decoded(t, docs)
			pod := all["Deployment"].(*apps.Deployment).Spec.Template.Spec
			if *pod.TerminationGracePeriodSeconds != 35 || *pod.EnableServiceLinks {
				t.Errorf("grace %d, service links %v", *pod.TerminationGracePeriodSeconds, *pod.EnableServiceLinks)
			}
			if kinds := map[string]int{"everything": 7, "little": 2, "sqlite": 3}[name]; kinds != 0 && len(all) != kinds {
				t.Errorf("%d kinds: %v", len(all), all)
			}
			checkEnv(t, name, pod.Containers[0].Env)
		})
	}
}

// checkEnv checks that no variable is named twice, and that values have the form that the
// service reads.
func checkEnv(t *testing.T, name string, env []core.EnvVar) {
	t.Helper()
	value := map[string]string{}
	for _, e := range env {
		if _, twice := value[e.Name]; twice {
			t.Errorf("%s is there twice", e.Name)
		}
		value[e.Name] = e.Value
	}
	want := map[string]map[string]string{
		"example": {"NOTIFIER_CLIENTS": "ops,shop", "NOTIFIER_CLIENT_SHOP_PREFIX": "shop", "NOTIFIER_CONFIGURE_REDIS": "false",
			"NOTIFIER_SHUTDOWN_DELAY": "5s"},
		"routes": {"NOTIFIER_ROUTES": "a-b", "NOTIFIER_ROUTE_A_B_CONCURRENCY": "8", "NOTIFIER_ROUTE_A_B_ADOPT": "true",
			"NOTIFIER_ROUTE_A_B_RETRY": "15s,3m"},
		"cluster":    {"NOTIFIER_REDIS_MODE": "cluster"},
		"sqlite":     {"NOTIFIER_HISTORY_URL": "sqlite:///history/history.db"},
		"everything": {"NOTIFIER_LOG_ATTEMPTS": "failed", "NOTIFIER_CONCURRENCY": "512"},
	}[name]
	for n, v := range want {
		if value[n] != v {
			t.Errorf("%s is %q, want %q", n, value[n], v)
		}
	}
}

func TestValuesAreRefused(t *testing.T) {
	for change, want := range map[string]string{
		"history: {kind: sqlite, claim: notifier}":               "replicaCount",
		"replicaCount: 1\nhistory: {kind: sqlite}":               "claim",
		"terminationGracePeriodSeconds: 20":                      "want 0, or at least 35",
		"shutdownTimeout: 60\nterminationGracePeriodSeconds: 60": "at least 70",
		"env: [{name: NOTIFIER_SHUTDOWN_TIMEOUT, value: 60s}]":   "/env/0/name",
		"routes: []":  "routes",
		"clients: []": "clients",
		"clients: [{name: a, role: root, token: {name: a, key: b}}]":                       "role",
		"clients: [{name: a, role: read, token: hunter2}]":                                 "token",
		"redis: {mode: sentinels}":                                                         "mode",
		"redis: {url: redis://u:p@h}":                                                      "url",
		"replicas: 3":                                                                      "replicas",
		"routes: [{name: a, prefix: 'a b', target: log}]":                                  "prefix",
		"replicaCount: 1\nautoscaling: {enabled: true}\nhistory: {kind: sqlite, claim: a}": "autoscaling",
	} {
		if _, err := render(t, values(t, change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", change, err, want)
		}
	}
}

// The rules are those of deploy/prometheus, with their own templates untouched.
func TestAlertsAreTheSame(t *testing.T) {
	want, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(chart + "/files/alerts.yaml")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("files/alerts.yaml is not deploy/prometheus/alerts.yaml: copy it (%v)", err)
	}
	docs, err := render(t, values(t, "prometheusRule: {enabled: true}"))
	if err != nil {
		t.Fatal(err)
	}
	rule, ok := decoded(t, docs)["PrometheusRule"].(*monitoring.PrometheusRule)
	if !ok || len(rule.Spec.Groups) != 1 || len(rule.Spec.Groups[0].Rules) < 20 ||
		!slices.ContainsFunc(rule.Spec.Groups[0].Rules, func(r monitoring.Rule) bool {
			return strings.Contains(r.Annotations["summary"], "{{ $labels.route }}")
		}) {
		t.Errorf("%+v", rule)
	}
}

const preface = `# notifier in Kubernetes, beside a Redis that exists already. It is rendered from
# deploy/helm/notifier with deploy/helm/example-values.yaml by go generate in test/helm. Make
# the secrets first; nothing secret is in this file:
#
#   kubectl create secret generic notifier \
#     --from-literal=redis-url='rediss://notifier:…@redis:6379/0' \
#     --from-literal=ops-token="$(openssl rand -hex 24)" \
#     --from-literal=shop-token="$(openssl rand -hex 24)" \
#     --from-literal=orders-secret="whsec_$(openssl rand -base64 32)"
#   kubectl apply -f deploy/kubernetes.yaml
`

func TestKubernetesIsRendered(t *testing.T) {
	docs, err := render(t, values(t))
	if err != nil {
		t.Fatal(err)
	}
	want := preface + strings.Join(docs, "---\n")
	if *update {
		if err := os.WriteFile(static, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(static); err != nil || string(got) != want {
		t.Errorf("deploy/kubernetes.yaml is not what the chart renders: run go generate in test/helm (%v)", err)
	}
}

package telemetry

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"
)

// families returns the names of this service's metrics: those that are registered, with or without a series.
func families(t *testing.T) map[string]bool {
	t.Helper()
	m := NewMetrics(MetricsOptions{History: true, Telemetry: true})
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		m.registry.Describe(all)
		snapshot{}.Describe(all)
	}()

	names := map[string]bool{}
	for d := range all {
		if name := describedName.FindStringSubmatch(d.String()); name != nil {
			names[name[1]] = true
		}
	}
	if !names["notifier_build_info"] || !names["notifier_pending"] {
		t.Fatalf("only %d metrics are described", len(names))
	}
	return names
}

// describedName matches the name in the text of a description, which has no other access to it.
var describedName = regexp.MustCompile(`fqName: "(notifier_[a-z_]+)"`)

var metricName = regexp.MustCompile(`\bnotifier_[a-z_]+`)

// used returns the metric names in a text, without a histogram's suffixes.
func used(text string, known map[string]bool) map[string]bool {
	names := map[string]bool{}
	for _, n := range metricName.FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(n, suffix); cut && known[base] {
				n = base
			}
		}
		names[n] = true
	}
	return names
}

type rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Record      string            `yaml:"record"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

const prometheusFolder = "../../deploy/prometheus/"

// opens reports whether a link is a page's path in a checkout or, after scripts/set-module-path.sh, its address.
func opens(link, page string) bool {
	host, found := strings.CutSuffix(link, page)
	return found && (host == "" || strings.HasPrefix(host, "https://") && strings.HasSuffix(host, "/blob/main/"))
}

// aggregation matches the labels of an aggregation or of the matching of two vectors.
var aggregation = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)

// firing returns the alerts that promtool's unit tests in a file expect to fire.
func firing(t *testing.T, file string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(prometheusFolder + file)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Tests []struct {
			Checks []struct {
				Alert  string `yaml:"alertname"`
				Alerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	fires := map[string]bool{}
	for _, x := range f.Tests {
		for _, c := range x.Checks {
			fires[c.Alert] = fires[c.Alert] || len(c.Alerts) > 0
		}
	}
	return fires
}

func TestAlertsNameMetricsAndRunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	known := families(t)
	for _, file := range []string{"alerts", "slo"} {
		b, err := os.ReadFile(prometheusFolder + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var r rules
		d := yaml.NewDecoder(strings.NewReader(string(b)))
		d.KnownFields(true)
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		fires := firing(t, file+"_test.yaml")
		for _, g := range r.Groups {
			for _, a := range g.Rules {
				for n := range used(a.Expr, known) {
					if !known[n] && !strings.Contains(a.Expr, ":"+n+":") {
						t.Errorf("%s names %s, which is not a metric", cmp.Or(a.Alert, a.Record), n)
					}
				}
				for _, by := range aggregation.FindAllStringSubmatch(a.Expr, -1) {
					if !strings.HasPrefix(by[1]+",", "job, namespace,") {
						t.Errorf("%s is aggregated by %s, without job and namespace", cmp.Or(a.Alert, a.Record), by[1])
					}
				}
				if a.Record != "" {
					continue
				}
				if s := a.Labels["severity"]; s != "page" && s != "ticket" {
					t.Errorf("%s: severity %q", a.Alert, s)
				}
				if !opens(a.Annotations["runbook_url"], "docs/runbook.md#"+strings.ToLower(a.Alert)) || a.Annotations["summary"] == "" {
					t.Errorf("%s: %v", a.Alert, a.Annotations)
				}
				if !strings.Contains(string(page), "\n### "+a.Alert+"\n") {
					t.Errorf("docs/runbook.md has no heading ### %s", a.Alert)
				}
				if !fires[a.Alert] {
					t.Errorf("no test in deploy/prometheus/%s_test.yaml expects %s to fire", file, a.Alert)
				}
			}
		}
	}
}

func TestDashboardShowsAllMetrics(t *testing.T) {
	b, err := os.ReadFile("../../deploy/grafana/notifier.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int    `json:"id"`
			Type    string `json:"type"`
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	var queries strings.Builder
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries.WriteString(target.Expr + "\n")
		}
	}
	known := families(t)
	shown := used(queries.String(), known)
	for n := range shown {
		if !known[n] {
			t.Errorf("the dashboard names %s, which is not a metric", n)
		}
	}
	for n := range known {
		if !shown[n] {
			t.Errorf("%s is not on the dashboard", n)
		}
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q: duplicate number, or no content", p.ID, p.Title)
		}
		ids[p.ID] = true
	}
}

package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	rules     = "../../deploy/prometheus/alerts.yaml"
	objective = "../../deploy/prometheus/slo.yaml"
)

func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"tool", "promtool"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreWellFormed(t *testing.T) {
	promtool(t, "check", "rules", "--lint-fatal", rules, objective)
}

// deploy/compose.yaml runs Prometheus with this configuration.
func TestConfigurationIsWellFormed(t *testing.T) {
	promtool(t, "check", "config", "--lint-fatal", "../../deploy/prometheus/prometheus.yaml")
}

func TestUnitTestsOfRules(t *testing.T) {
	promtool(t, "test", "rules", "../../deploy/prometheus/alerts_test.yaml", "../../deploy/prometheus/slo_test.yaml")
}

// Real instances provoke the alerts. Their pages are scraped once for each simulated minute,
// and promtool evaluates the rules over the samples.
func TestAlertsOfRunningInstances(t *testing.T) {
	redis := startRedis(t)
	receiver := refuses(t)
	a, b := startInstance(t, redis.url, receiver), startInstance(t, redis.url, receiver)
	r := &recording{series: map[string][]string{}}
	until(t, "two instances that know each other", func() bool {
		return strings.Contains(a.page(t), `notifier_instances{state="living"} 2`) &&
			strings.Contains(b.page(t), `notifier_instances{state="living"} 2`)
	})
	record := func(minutes int) { r.record(t, minutes, map[string]*instance{"a": a, "b": b}) }

	record(20)
	r.expect()

	a.schedule(t, 10)
	until(t, "ten dead letters", func() bool {
		return sum(t, `notifier_attempts_total{outcome="dead",`, a.page(t), b.page(t)) == 10
	})
	record(3)
	r.expect("NotifierDeadLetters")

	b.kill(t)
	until(t, "a dead instance", func() bool { return sum(t, "notifier_instances_gone_total", a.page(t)) == 1 })
	record(8)
	r.expect("NotifierDeadLetters", "NotifierInstanceDead", "NotifierInstanceMissing")

	redis.kill(t)
	until(t, "Redis is down", func() bool { return strings.Contains(a.page(t), "notifier_redis_up 0") })
	record(3)
	r.expect("NotifierDeadLetters", "NotifierInstanceDead", "NotifierInstanceMissing", "NotifierRedisUnreachable")

	r.evaluate(t)
}

// watched are the alerts that a recording expects or excludes. Whether Redis is set up for
// production is not part of this test.
const watched = "NotifierDown|NotifierInstanceMissing|NotifierInstanceDead|NotifierRedisUnreachable|NotifierDeadLetters|NotifierLate|NotifierStuck|NotifierOrphans|NotifierUnconfirmed"

// recording is the series of scraped pages and the alerts that are expected to fire.
type recording struct {
	minutes int
	series  map[string][]string // a value for each minute, _ where there is none
	checks  strings.Builder
}

// record scrapes the running instances for some minutes.
func (r *recording) record(t *testing.T, minutes int, all map[string]*instance) {
	t.Helper()
	for range minutes {
		for name, i := range all {
			if !i.dead {
				r.add(i.page(t), name)
			}
		}
		r.minutes++
		for series, values := range r.series {
			if len(values) < r.minutes {
				r.series[series] = append(values, "stale")
			}
		}
	}
}

// add takes the samples of one page of the Prometheus text format.
func (r *recording) add(page, instance string) {
	target := fmt.Sprintf(`job="notifier",namespace="test",instance=%q`, instance)
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "notifier_") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		name, labels, _ := strings.Cut(line[:at], "{")
		if labels = strings.TrimSuffix(labels, "}"); labels != "" {
			labels = "," + labels
		}
		series := name + "{" + target + labels + "}"
		if r.series[series] == nil {
			r.series[series] = make([]string, 0, r.minutes+1)
			for range r.minutes {
				r.series[series] = append(r.series[series], "_")
			}
		}
		r.series[series] = append(r.series[series], strings.TrimSpace(line[at:]))
	}
}

// expect says which watched alerts fire at the last minute.
func (r *recording) expect(alerts ...string) {
	fmt.Fprintf(&r.checks,
		"      - expr: 'count by (alertname) (ALERTS{alertstate=\"firing\",alertname=~\"%s\"})'\n        eval_time: %dm\n        exp_samples:\n",
		watched, r.minutes-1)
	for _, a := range alerts {
		fmt.Fprintf(&r.checks, "          - {labels: '{alertname=\"%s\"}', value: 1}\n", a)
	}
}

// evaluate has promtool evaluate the rules over the recording.
func (r *recording) evaluate(t *testing.T) {
	t.Helper()
	file, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%s]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n", file)
	for series, values := range r.series {
		fmt.Fprintf(&b, "      - {series: '%s', values: '%s'}\n", strings.ReplaceAll(series, "'", "''"), strings.Join(values, " "))
	}
	b.WriteString("    promql_expr_test:\n" + r.checks.String())

	out := filepath.Join(t.TempDir(), "recorded.yaml")
	if err := os.WriteFile(out, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", out)
}

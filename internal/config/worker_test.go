package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"
)

func TestWorkerHasTheDefaultsOfTheService(t *testing.T) {
	c, err := LoadWorker(envconfig.MapLookuper(map[string]string{"NOTIFIER_ROUTES": "none of these", "NOTIFIER_KEY_FILE": "no file",
		"NOTIFIER_GRACE": "20ms", "NOTIFIER_DURABILITY": "replicas:2"}), readFile)
	if err != nil {
		t.Fatal(err)
	}
	if c.Grace != 20*time.Millisecond || c.Durability.Replicas != 2 {
		t.Errorf("grace %s, durability %s: the variables were not read", c.Grace, c.Durability)
	}

	whole, err := Load(envconfig.MapLookuper(map[string]string{"NOTIFIER_ROUTES": "a",
		"NOTIFIER_ROUTE_A_PREFIX": "a", "NOTIFIER_ROUTE_A_TARGET": "log"}), nil, readFile)
	if err != nil {
		t.Fatal(err)
	}
	if c.Takeover != whole.Takeover || c.Retain != whole.Retain || c.Retention != whole.Retention || c.Redis.URL != whole.Redis.URL {
		t.Errorf("%+v, want the defaults of %+v", c, whole)
	}
}

func TestWorkerRefusesWhatTheServiceRefuses(t *testing.T) {
	_, err := LoadWorker(envconfig.MapLookuper(map[string]string{"NOTIFIER_GRACE": "1h", "NOTIFIER_DURABILITY": "disk",
		"NOTIFIER_REDIS_URL_FILE": "missing", "NOTIFIER_MAX_BODY": "wrong, and not read"}), readFile)
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Fatalf("%v, want three problems", err)
	}
	for _, want := range []string{"NOTIFIER_GRACE", "NOTIFIER_DURABILITY", "NOTIFIER_REDIS_URL_FILE"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s too", err, want)
		}
	}
}

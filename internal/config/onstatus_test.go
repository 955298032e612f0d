package config

import (
	"strings"
	"testing"
)

func TestRulesForAnswersNeedAnswers(t *testing.T) {
	c, err := load(with("ROUTE_ORDERS_TARGET=https://shop.example/", "ROUTE_ORDERS_ON_STATUS=422:dead,404:dead",
		"ROUTE_ORDERS_PAUSE_AFTER=1d"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(Describe(c), "\n")
	if !strings.Contains(text, ", on status 404:dead,422:dead, a receiver paused after 24h of failures") {
		t.Errorf("%s", text)
	}
	for _, target := range []string{"log", "list:jobs", "stream:jobs"} {
		_, err := load(with("ROUTE_ORDERS_TARGET="+target, "ROUTE_ORDERS_PAUSE_AFTER=24h"))
		if err == nil || !strings.Contains(err.Error(), "NOTIFIER_ROUTE_ORDERS_PAUSE_AFTER: is for HTTP targets") {
			t.Errorf("%s: %v", target, err)
		}
		_, err = load(with("ROUTE_ORDERS_TARGET="+target, "ROUTE_ORDERS_ON_STATUS=404:dead"))
		if err == nil || !strings.Contains(err.Error(), "NOTIFIER_ROUTE_ORDERS_ON_STATUS: is for HTTP targets") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

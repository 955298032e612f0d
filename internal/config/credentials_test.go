package config

import (
	"slices"
	"testing"
)

func TestWithoutCredentialsRemovesSecretsOnly(t *testing.T) {
	keeps := []string{
		"PATH=/bin", "NOTIFY=1", "PGPASSWORD=theirs",
		"NOTIFIER_URL=https://shop.example", "NOTIFIER_TOKEN_FILE=/run/token", "NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_REDIS_URL_FILE=/run/url",
		"NOTIFIER_ROUTES=pay", "NOTIFIER_ROUTE_PAY_SECRET_FILE=/run/secret",
		"NOTIFIER_ROUTE_PAY_KEY_FILE=/run/key", "NOTIFIER_ROUTE_PAY_HEADERS_TO=shop.example", "NOTIFIER_CLIENT_SHOP_PREFIX=shop",
	}
	removes := []string{
		"NOTIFIER_TOKEN=t", "NOTIFIER_KEY=k", "NOTIFIER_REDIS_URL=redis://localhost/0", "NOTIFIER_SENTINEL_PASSWORD=p",
		"NOTIFIER_TO_SENTINEL_PASSWORD=p", "NOTIFIER_HISTORY_URL=postgres://u:p@h/d", "NOTIFIER_CLIENT_SHOP_TOKEN=t",
		"NOTIFIER_ROUTE_PAY_SECRET=s",
		"NOTIFIER_ROUTE_PAY_HEADERS=Authorization=s", "NOTIFIER_ROUTE_PAY_PROXY=http://u:p@proxy",
		"NOTIFIER_ROUTE_PAY_TARGET=https://shop.example/x",
		"NOTIFIER_URL=https://u:p@shop.example", "NOTIFIER_URL=https://u:p%@shop.example", "NOTIFIER_OF_A_LATER_VERSION=s",
		"NOTIFIER_ROUTE_PREFIX=x",
	}
	if got := WithoutCredentials(slices.Concat(keeps, removes)); !slices.Equal(got, keeps) {
		t.Errorf("%q", got)
	}
}

package config

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"
)

// authority is a CA's certificate, valid for 100 years. Its key was not kept.
const authority = `-----BEGIN CERTIFICATE-----
MIIBcjCCARegAwIBAgIUPzq0s42vJdB+uR7ydeHr6WvKGqowCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTIyMDc1NzM0WhgPMjEyNjEwMjkwNzU3MzRa
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEXfrvPJx4
5QYeXPutoew/y4soiiHR2hFdR/Gn30N2CaW/nYD6wCui2ydSCvYQWM/bUUMrkr3l
sfisdQJRaPes7aNTMFEwHQYDVR0OBBYEFAzbGYXRsiUzA7v+xZ6j12330QT2MB8G
A1UdIwQYMBaAFAzbGYXRsiUzA7v+xZ6j12330QT2MA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSQAwRgIhAJRpkrkSiKHaODnqf9mV/2XhOQ0pvT3+HffiFqwl
WXeiAiEA1cZd0b6hLYoS3oRmdT1luRZHk+uQrw8sm0I6MBVKRk0=
-----END CERTIFICATE-----
`

func TestRedisTLSAndSentinelLogIn(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want string // empty = valid
	}{
		{[]string{"REDIS_CA_FILE=/run/ca.pem"}, ""},
		{[]string{"REDIS_CA_FILE=/run/none.pem"}, "NOTIFIER_REDIS_CA_FILE"},
		{[]string{"REDIS_CA_FILE=/run/missing"}, "can be read"},
		{[]string{"REDIS_CERT_FILE=/run/none.pem"}, "NOTIFIER_REDIS_KEY_FILE: is missing"},
		{[]string{"REDIS_KEY_FILE=/run/none.pem"}, "NOTIFIER_REDIS_CERT_FILE: is missing"},
		{[]string{"REDIS_CERT_FILE=/run/none.pem", "REDIS_KEY_FILE=/run/none.pem"}, "want a certificate in PEM"},
		{[]string{"REDIS_MODE=sentinel", "REDIS_URL=rediss://h:26379?master_name=m", "SENTINEL_USERNAME=u"},
			"NOTIFIER_SENTINEL_PASSWORD: is missing"},
		{[]string{"REDIS_MODE=sentinel", "REDIS_URL=rediss://h:26379?master_name=m", "SENTINEL_USERNAME=u", "SENTINEL_PASSWORD=" + hidden}, ""},
	} {
		env := with(append([]string{"REDIS_URL=rediss://h:6379"}, c.set...)...)
		got, err := load(env)
		switch {
		case c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v", c.set, err)
		case err != nil && strings.Contains(err.Error(), hidden):
			t.Errorf("%v: the error shows the password", c.set)
		case err == nil && got.Redis.Mode == Sentinel && (got.Redis.SentinelUsername != "u" || string(got.Redis.SentinelPassword) != hidden):
			t.Errorf("%v: %q, %q", c.set, got.Redis.SentinelUsername, got.Redis.SentinelPassword)
		case err == nil && got.Redis.Mode == Standalone && got.Redis.TLS.RootCAs == nil:
			t.Errorf("%v: no authority", c.set)
		}
		alone, err := LoadRedis(envconfig.MapLookuper(env), readFile)
		if (err == nil) != (c.want == "") || err == nil && alone.URL != got.Redis.URL {
			t.Errorf("%v, read alone: %v", c.set, err)
		}
	}
}

// The connection to the target Redis defaults to the source's settings. NOTIFIER_TO_ variables are
// accepted everywhere.
func TestLoadToDefaultsToSource(t *testing.T) {
	as := Redis{URL: "rediss://old:6379", Mode: Standalone, TLS: &tls.Config{ServerName: "of the old one"}, SentinelUsername: "old",
		SentinelPassword: Secret("old")}
	for _, c := range []struct {
		url, mode string
		set       []string
		want      string // empty = valid
		user      string
		same      bool // TLS is the source's
	}{
		{"redis://h:6379", Standalone, nil, "", "", true},
		{"rediss://h:6379", Standalone, []string{"TO_REDIS_CA_FILE=/run/ca.pem"}, "", "", false},
		{"redis://h:6379", Standalone, []string{"TO_REDIS_CA_FILE=/run/ca.pem"}, "NOTIFIER_TO_REDIS_CA_FILE", "", false},
		{"redis://h:26379?master_name=m", Sentinel, nil, "", "old", true},
		{"redis://h:26379?master_name=m", Sentinel, []string{"TO_SENTINEL_USERNAME=u", "TO_SENTINEL_PASSWORD=" + hidden}, "", "u", true},
		{"redis://h:26379?master_name=m", Sentinel, []string{"TO_SENTINEL_USERNAME=u"}, "NOTIFIER_TO_SENTINEL_PASSWORD: is missing", "", true},
		{"redis://h:6379", Cluster, []string{"TO_SENTINEL_PASSWORD=" + hidden}, "--to-mode=sentinel", "", true},
		{"redis://h:" + hidden + "@:x", Standalone, nil, "--to", "", true},
		{"redis://h:6379/3", Cluster, nil, "--to", "", true},
		{"redis://h:6379", "both", nil, "--to-mode", "", true},
	} {
		env := with(c.set...)
		if _, err := load(env); err != nil {
			t.Errorf("%v: %v", c.set, err)
		}
		got, err := LoadTo(c.url, c.mode, as, envconfig.MapLookuper(env), readFile)
		switch {
		case (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "NOTIFIER_REDIS")):
			t.Errorf("%s %s %v: %v; want %q", c.url, c.mode, c.set, err, c.want)
		case err != nil && strings.Contains(err.Error(), hidden):
			t.Errorf("%v: the error shows the password", c.set)
		case err == nil && (got.SentinelUsername != c.user || (got.TLS == as.TLS) != c.same || got.URL != c.url):
			t.Errorf("%v: %+v, %v", c.set, got, got.TLS)
		}
	}
	if _, err := load(with("TO_REDIS_CAFILE=/run/ca.pem")); err == nil || !strings.Contains(err.Error(), "NOTIFIER_TO_REDIS_CA_FILE") {
		t.Errorf("a misspelt name: %v", err)
	}
}

package config

import (
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"
)

// authority is a certificate of a CA, valid for 100 years, whose key is gone.
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

func TestTLSToRedisAndTheSentinelsLogIn(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want string // empty = it is right
	}{
		{[]string{"REDIS_CA_FILE=/run/ca.pem"}, ""},
		{[]string{"REDIS_CA_FILE=/run/none.pem"}, "NOTIFIER_REDIS_CA_FILE"},
		{[]string{"REDIS_CA_FILE=/run/missing"}, "can be read"},
		{[]string{"REDIS_CERT_FILE=/run/none.pem"}, "NOTIFIER_REDIS_KEY_FILE: is missing"},
		{[]string{"REDIS_KEY_FILE=/run/none.pem"}, "NOTIFIER_REDIS_CERT_FILE: is missing"},
		{[]string{"REDIS_CERT_FILE=/run/none.pem", "REDIS_KEY_FILE=/run/none.pem"}, "want a certificate in PEM"},
		{[]string{"REDIS_MODE=sentinel", "REDIS_URL=rediss://h:26379?master_name=m", "SENTINEL_USERNAME=u"}, "NOTIFIER_SENTINEL_PASSWORD: is missing"},
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

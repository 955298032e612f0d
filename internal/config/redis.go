package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// redisVars configure the connection to Redis. Some commands read only these.
type redisVars struct {
	RedisURL         string `env:"REDIS_URL, default=redis://127.0.0.1:6379/0" secret:"file"`
	RedisMode        string `env:"REDIS_MODE, default=standalone"`
	RedisCAFile      string `env:"REDIS_CA_FILE"`
	RedisCertFile    string `env:"REDIS_CERT_FILE"`
	RedisKeyFile     string `env:"REDIS_KEY_FILE"`
	SentinelUsername string `env:"SENTINEL_USERNAME"`
	SentinelPassword string `env:"SENTINEL_PASSWORD" secret:"file"`
}

// LoadRedis reads only the connection to Redis, for commands that need no other configuration. Its error is of type
// [Errors].
func LoadRedis(lookup envconfig.Lookuper, readFile func(string) ([]byte, error)) (Redis, error) {
	r := newReader(lookup, readFile)
	var raw redisVars
	r.fill(Prefix, &raw)
	c := r.redis(&raw)
	if len(r.errs) > 0 {
		return Redis{}, r.errs.sorted()
	}

	return c, nil
}

// To is the prefix of variables for the target Redis of a migration, where its connection differs from that of the
// source. NOTIFIER_TO_REDIS_CA_FILE has the meaning of NOTIFIER_REDIS_CA_FILE there.
const To = Prefix + "TO_"

// toVars lists the variables with the prefix [To]. The address and the mode are arguments of the command.
var toVars = []string{To + "REDIS_CA_FILE", To + "REDIS_CERT_FILE", To + "REDIS_KEY_FILE",
	To + "SENTINEL_USERNAME", To + "SENTINEL_PASSWORD", To + "SENTINEL_PASSWORD_FILE"}

// LoadTo reads the connection to the target Redis of a migration. TLS and the sentinels' log-in default to those of the
// source, which is as. Its error is of type [Errors] and does not contain the address.
func LoadTo(url, mode string, as Redis, lookup envconfig.Lookuper, readFile func(string) ([]byte, error)) (Redis, error) {
	c, err := LoadRedis(envconfig.LookuperFunc(func(name string) (string, bool) {
		switch name {
		case Prefix + "REDIS_URL":
			return url, true
		case Prefix + "REDIS_URL_FILE":
			return "", false
		case Prefix + "REDIS_MODE":
			return mode, true
		}
		return lookup.Lookup(To + strings.TrimPrefix(name, Prefix))
	}), readFile)
	var errs Errors
	if errors.As(err, &errs) {
		names := strings.NewReplacer(Prefix+"REDIS_URL", "--to", Prefix+"REDIS_MODE", "--to-mode", Prefix, To)
		for i := range errs {
			errs[i].Variable, errs[i].Want = names.Replace(errs[i].Variable), names.Replace(errs[i].Want)
		}
	}

	if err != nil {
		return Redis{}, err
	}

	if c.TLS == nil {
		c.TLS = as.TLS
	}

	if c.Mode == Sentinel && c.SentinelUsername == "" && string(c.SentinelPassword) == "" {
		c.SentinelUsername, c.SentinelPassword = as.SentinelUsername, as.SentinelPassword
	}

	return c, nil
}

// redis reads the address, the TLS files and the sentinels' log-in.
func (r *reader) redis(raw *redisVars) Redis {
	c := Redis{URL: raw.RedisURL, Mode: raw.RedisMode, SentinelUsername: raw.SentinelUsername, SentinelPassword: Secret(raw.SentinelPassword)}
	r.address(c)
	c.TLS = r.redisTLS(raw)
	for name, value := range map[string]string{"SENTINEL_USERNAME": raw.SentinelUsername, "SENTINEL_PASSWORD": raw.SentinelPassword} {
		if value != "" && raw.RedisMode != Sentinel {
			r.add(Prefix+name, "", "needs "+Prefix+"REDIS_MODE=sentinel; set that, or remove this variable")
		}
	}

	if raw.SentinelUsername != "" && raw.SentinelPassword == "" {
		r.add(Prefix+"SENTINEL_PASSWORD", "", "is missing; "+Prefix+"SENTINEL_USERNAME needs it")
	}

	return c
}

// redisTLS reads the TLS files at start, so that a wrong file is an error before the first handshake.
func (r *reader) redisTLS(raw *redisVars) *tls.Config {
	if raw.RedisCAFile == "" && raw.RedisCertFile == "" && raw.RedisKeyFile == "" {
		return nil
	}

	for name, value := range map[string]string{"REDIS_CA_FILE": raw.RedisCAFile, "REDIS_CERT_FILE": raw.RedisCertFile,
		"REDIS_KEY_FILE": raw.RedisKeyFile} {
		if value != "" && !strings.HasPrefix(raw.RedisURL, "rediss://") {
			r.add(Prefix+name, value, "needs TLS; begin "+Prefix+"REDIS_URL with rediss://, or remove it")
		}
	}

	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if raw.RedisCAFile != "" {
		c.RootCAs = x509.NewCertPool()
		if b, ok := r.file("REDIS_CA_FILE", raw.RedisCAFile); ok && !c.RootCAs.AppendCertsFromPEM(b) {
			r.wrong("REDIS_CA_FILE", raw.RedisCAFile, "a file with certificates in PEM")
		}
	}

	c.Certificates = r.redisCertificate(raw)
	return c
}

// redisCertificate returns the client certificate for Redis, if one is configured.
func (r *reader) redisCertificate(raw *redisVars) []tls.Certificate {
	switch {
	case raw.RedisCertFile == "" && raw.RedisKeyFile == "":
		return nil
	case raw.RedisKeyFile == "":
		r.add(Prefix+"REDIS_KEY_FILE", "", "is missing; "+Prefix+"REDIS_CERT_FILE needs its key")
		return nil
	case raw.RedisCertFile == "":
		r.add(Prefix+"REDIS_CERT_FILE", "", "is missing; "+Prefix+"REDIS_KEY_FILE needs its certificate")
		return nil
	}

	cert, ok1 := r.file("REDIS_CERT_FILE", raw.RedisCertFile)
	key, ok2 := r.file("REDIS_KEY_FILE", raw.RedisKeyFile)
	if !ok1 || !ok2 {
		return nil
	}

	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		r.wrong("REDIS_CERT_FILE", raw.RedisCertFile, "a certificate in PEM, and in "+Prefix+"REDIS_KEY_FILE its key")
	}

	return []tls.Certificate{pair}
}

func (r *reader) file(name, path string) ([]byte, bool) {
	b, err := r.readFile(path)
	if err != nil {
		r.wrong(name, path, "the name of a file that can be read ("+cause(err)+")")
		return nil, false
	}

	return b, true
}

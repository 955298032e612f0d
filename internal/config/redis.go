package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// redisVars say how Redis is reached: commands read them that read no others.
type redisVars struct {
	RedisURL         string `env:"REDIS_URL, default=redis://127.0.0.1:6379/0" secret:"file"`
	RedisMode        string `env:"REDIS_MODE, default=standalone"`
	RedisCAFile      string `env:"REDIS_CA_FILE"`
	RedisCertFile    string `env:"REDIS_CERT_FILE"`
	RedisKeyFile     string `env:"REDIS_KEY_FILE"`
	SentinelUsername string `env:"SENTINEL_USERNAME"`
	SentinelPassword string `env:"SENTINEL_PASSWORD" secret:"file"`
}

// LoadRedis reads how Redis is reached, for commands that need nothing else of the
// configuration. Its error is of type Errors.
func LoadRedis(lookup envconfig.Lookuper, readFile func(string) ([]byte, error)) (Redis, error) {
	r := &reader{source: &source{lookup: lookup, readFile: readFile}}
	r.known = map[string]bool{}
	var raw redisVars
	r.fill(Prefix, &raw)
	c := r.redis(&raw)
	if len(r.errs) > 0 {
		return Redis{}, r.errs.sorted()
	}
	return c, nil
}

// To begins the variables that say how the Redis is reached that notices move to, where
// that differs: NOTIFIER_TO_REDIS_CA_FILE is to it what NOTIFIER_REDIS_CA_FILE is to this
// one.
const To = Prefix + "TO_"

// toVars are those variables; the address and its mode are given to the command.
var toVars = []string{To + "REDIS_CA_FILE", To + "REDIS_CERT_FILE", To + "REDIS_KEY_FILE",
	To + "SENTINEL_USERNAME", To + "SENTINEL_PASSWORD", To + "SENTINEL_PASSWORD_FILE"}

// LoadTo reads how the Redis at an address is reached that notices of another one move to.
// Where no variable that begins with To says so of TLS, or of the sentinels' log-in, it is
// reached as that one is. Its error is of type Errors, and does not repeat the address.
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

// redis reads the address, the files of TLS and the sentinels' log-in.
func (r *reader) redis(raw *redisVars) Redis {
	c := Redis{URL: raw.RedisURL, Mode: raw.RedisMode, SentinelUsername: raw.SentinelUsername, SentinelPassword: Secret(raw.SentinelPassword)}
	r.address(c)
	c.TLS = r.redisTLS(raw)
	for name, value := range map[string]string{"SENTINEL_USERNAME": raw.SentinelUsername, "SENTINEL_PASSWORD": raw.SentinelPassword} {
		if value != "" && raw.RedisMode != Sentinel {
			r.add(Prefix+name, "", "is for "+Prefix+"REDIS_MODE=sentinel; remove it, or set that")
		}
	}
	if raw.SentinelUsername != "" && raw.SentinelPassword == "" {
		r.add(Prefix+"SENTINEL_PASSWORD", "", "is missing; "+Prefix+"SENTINEL_USERNAME needs it")
	}
	return c
}

// redisTLS reads the files, so that a wrong one is found at start and not in the
// first handshake.
func (r *reader) redisTLS(raw *redisVars) *tls.Config {
	if raw.RedisCAFile == "" && raw.RedisCertFile == "" && raw.RedisKeyFile == "" {
		return nil
	}
	for name, value := range map[string]string{"REDIS_CA_FILE": raw.RedisCAFile, "REDIS_CERT_FILE": raw.RedisCertFile,
		"REDIS_KEY_FILE": raw.RedisKeyFile} {
		if value != "" && !strings.HasPrefix(raw.RedisURL, "rediss://") {
			r.add(Prefix+name, value, "is for TLS; want "+Prefix+"REDIS_URL to begin with rediss://, or remove it")
		}
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if raw.RedisCAFile != "" {
		c.RootCAs = x509.NewCertPool()
		if b, ok := r.file("REDIS_CA_FILE", raw.RedisCAFile); ok && !c.RootCAs.AppendCertsFromPEM(b) {
			r.wrong("REDIS_CA_FILE", raw.RedisCAFile, "a file with certificates in PEM")
		}
	}
	switch {
	case raw.RedisCertFile == "" && raw.RedisKeyFile == "":
	case raw.RedisKeyFile == "":
		r.add(Prefix+"REDIS_KEY_FILE", "", "is missing; "+Prefix+"REDIS_CERT_FILE needs its key")
	case raw.RedisCertFile == "":
		r.add(Prefix+"REDIS_CERT_FILE", "", "is missing; "+Prefix+"REDIS_KEY_FILE needs its certificate")
	default:
		cert, ok1 := r.file("REDIS_CERT_FILE", raw.RedisCertFile)
		key, ok2 := r.file("REDIS_KEY_FILE", raw.RedisKeyFile)
		if ok1 && ok2 {
			pair, err := tls.X509KeyPair(cert, key)
			if err != nil {
				r.wrong("REDIS_CERT_FILE", raw.RedisCertFile, "a certificate in PEM, and in "+Prefix+"REDIS_KEY_FILE its key")
			}
			c.Certificates = []tls.Certificate{pair}
		}
	}
	return c
}

func (r *reader) file(name, path string) ([]byte, bool) {
	b, err := r.readFile(path)
	if err != nil {
		r.wrong(name, path, "the name of a file that can be read ("+cause(err)+")")
		return nil, false
	}
	return b, true
}

package config

import (
	"crypto/tls"
	"crypto/x509"
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
	for name, value := range map[string]string{"REDIS_CA_FILE": raw.RedisCAFile, "REDIS_CERT_FILE": raw.RedisCertFile, "REDIS_KEY_FILE": raw.RedisKeyFile} {
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

//go:build !quick

package store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	a.issue("ca", true)
	a.pool.AddCert(a.cert)
	return a
}

// issue writes <name>.crt and <name>.key for 127.0.0.1.
func (a *authority) issue(name string, isCA bool) (cert, key string) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.next++
	template := &x509.Certificate{SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isCA, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	parent, signer := a.cert, a.key
	if isCA {
		parent, signer = template, k
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &k.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if isCA {
		a.key = k
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return cert, key
}

// settings are lines of redis.conf for TLS on a port, which ask for a client's
// certificate.
func (a *authority) settings(port int) []string {
	a.t.Helper()
	cert, key := a.issue("server"+strconv.Itoa(port), false)
	return []string{fmt.Sprint("tls-port ", port), "tls-cert-file " + cert, "tls-key-file " + key, "tls-ca-cert-file " + filepath.Join(a.dir,
		"ca.crt"),
		"tls-auth-clients yes", "tls-replication yes"}
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// startSentinel runs a sentinel that speaks TLS only and asks for a user.
func startSentinel(t *testing.T, a *authority, master int) (addr string) {
	t.Helper()
	port := freePort(t)
	lines := append(a.settings(port), "port 0", "bind 127.0.0.1", "dir "+t.TempDir(), `user default off`,
		"user watcher on >sesame allcommands allchannels",
		fmt.Sprintf("sentinel monitor pay 127.0.0.1 %d 1", master))
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", conf, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it reports the signal
	})
	return "127.0.0.1:" + strconv.Itoa(port)
}

func TestTLSWithCertificatesOfBothSides(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	port := freePort(t)
	testkit.StartRedis(t, testkit.WithConfig(a.settings(port)...))
	pair, err := tls.LoadX509KeyPair(a.issue("client", false))
	if err != nil {
		t.Fatal(err)
	}
	good := &tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{pair}}
	redis := "127.0.0.1:" + strconv.Itoa(port)
	sentinel := startSentinel(t, a, port)
	for name, c := range map[string]struct {
		a  wire.Address
		ok bool
	}{
		"all there":         {wire.Address{URL: "rediss://" + redis, TLS: good}, true},
		"authority unknown": {wire.Address{URL: "rediss://" + redis, TLS: &tls.Config{Certificates: good.Certificates}}, false},
		"no certificate":    {wire.Address{URL: "rediss://" + redis, TLS: &tls.Config{RootCAs: a.pool}}, false},
		"another host":      {wire.Address{URL: "rediss://localhost:" + strconv.Itoa(port), TLS: good}, false},
		"without TLS":       {wire.Address{URL: "redis://" + redis, TLS: good}, false},
		"sentinel": {wire.Address{Mode: "sentinel", URL: "rediss://" + sentinel + "/0?master_name=pay", TLS: good,
			SentinelUsername: "watcher", SentinelPassword: "sesame"}, true},
		"sentinel, wrong": {wire.Address{Mode: "sentinel", URL: "rediss://" + sentinel + "/0?master_name=pay", TLS: good,
			SentinelUsername: "watcher", SentinelPassword: "x"}, false},
		"sentinel, no log-in": {wire.Address{Mode: "sentinel", URL: "rediss://" + sentinel + "/0?master_name=pay", TLS: good}, false},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := wire.Open(c.a)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if c.ok { // the sentinel may need a moment
				testkit.Await(t, func() error { return conn.Ping(t.Context()).Err() })
				return
			}
			if err = conn.Ping(t.Context()).Err(); err == nil {
				t.Error("the connection was accepted")
			}
			if !c.ok && !errors.Is(wire.Wrap("ping", err), wire.ErrUnavailable) {
				t.Errorf("%v is no wire.ErrUnavailable", err)
			}
			if strings.HasPrefix(name, "sentinel, ") && !strings.Contains(err.Error(), "NOTIFIER_SENTINEL_PASSWORD") {
				t.Errorf("%v does not say where the log-in of sentinels is given", err)
			}
		})
	}
}

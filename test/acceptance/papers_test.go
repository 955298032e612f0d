package acceptance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// papers are certificates of an authority of the test's own.
type papers struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newPapers(t testing.TB) *papers {
	p := &papers{t: t, dir: t.TempDir()}
	p.issue("ca")
	return p
}

// issue writes name.crt and name.key, for 127.0.0.1; the first is the authority's.
func (p *papers) issue(name string) (cert, key string) {
	p.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.next++
	c := &x509.Certificate{SerialNumber: big.NewInt(p.next), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: p.cert == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	if p.cert == nil {
		p.cert, p.key = c, k
	}
	der, err := x509.CreateCertificate(rand.Reader, c, p.cert, &k.PublicKey, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	if c == p.cert {
		if p.cert, err = x509.ParseCertificate(der); err != nil {
			p.t.Fatal(err)
		}
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		p.t.Fatal(err)
	}
	cert, key = filepath.Join(p.dir, name+".crt"), filepath.Join(p.dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return cert, key
}

func (p *papers) authority() string { return filepath.Join(p.dir, "ca.crt") }

// server starts a Redis that speaks TLS beside, at addr, and asks for a certificate.
func (p *papers) server(options ...testkit.Option) (s *testkit.Redis, addr string) {
	p.t.Helper()
	port, err := testkit.FreePort()
	if err != nil {
		p.t.Fatal(err)
	}
	cert, key := p.issue("server" + strconv.Itoa(port))
	return testkit.StartRedis(p.t, append(slices.Clone(options), testkit.WithConfig(fmt.Sprint("tls-port ", port), "tls-cert-file "+cert,
		"tls-key-file "+key,
		"tls-ca-cert-file "+p.authority(), "tls-auth-clients yes"))...), "127.0.0.1:" + strconv.Itoa(port)
}

// env has a service trust the authority and show a certificate.
func (p *papers) env() []string {
	cert, key := p.issue("service")
	return []string{"NOTIFIER_REDIS_CA_FILE=" + p.authority(), "NOTIFIER_REDIS_CERT_FILE=" + cert, "NOTIFIER_REDIS_KEY_FILE=" + key}
}

package callback

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// talk is the behaviour of a receiver on one connection.
type talk = testkit.Talk

// listen serves every connection with f.
func listen(t testing.TB, conf *tls.Config, f talk) string {
	t.Helper()
	return testkit.ListenTCP(t, "127.0.0.1:0", conf, f)
}

// say reads a request, writes text and closes.
func say(text string) talk {
	return func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		if testkit.ReadRequest(in) == nil {
			_, _ = io.WriteString(c, text)
		}
	}
}

// hold reads a request, writes text and keeps the connection open until the caller closes it.
func hold(text string) talk {
	return func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		if testkit.ReadRequest(in) == nil {
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, in)
		}
	}
}

// reset reads a request, writes text and resets the connection.
func reset(text string) talk {
	return func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		if testkit.ReadRequest(in) != nil {
			return
		}
		_, _ = io.WriteString(c, text)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
}

// flood reads a request, writes head, and then writes chunk without end.
func flood(head, chunk string) talk {
	return func(c net.Conn, in *bufio.Reader, _ <-chan struct{}) {
		if testkit.ReadRequest(in) != nil {
			return
		}
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
		for {
			if _, err := io.WriteString(c, chunk); err != nil {
				return
			}
		}
	}
}

// drip reads a request and writes text over and over, one byte at a time with pauses.
func drip(text string) talk {
	return func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		if testkit.ReadRequest(in) != nil {
			return
		}
		go func() { _, _ = io.Copy(io.Discard, in) }() // what TLS writes before it closes; ends with the connection
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			if _, err := c.Write([]byte{text[min(i, len(text)-1)]}); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}
}

// authority is a CA made for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate in PEM form
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key = newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = writePEM(t, "CERTIFICATE", der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, typ string, der []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), typ[:4]+".pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// issue makes a certificate for 127.0.0.1. change may make it invalid.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "receiver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if change != nil {
		change(tmpl)
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes a certificate and its key.
func files(t testing.TB, c tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, "CERTIFICATE", c.Certificate[0]), writePEM(t, "PRIVATE KEY", der)
}

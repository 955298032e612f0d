package callback

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// issueRSA makes a certificate of an RSA key, which RSA key exchange needs.
func (a *authority) issueRSA(t *testing.T) tls.Certificate {
	t.Helper()
	c := a.issue(t, nil)
	tmpl, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	tmpl.KeyUsage |= x509.KeyUsageKeyEncipherment
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// smallHello is a receiver that closes the connection if the first message is long, as some older ones do.
func smallHello(conf *tls.Config) talk {
	return func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		head, err := in.Peek(5)
		if err != nil || int(head[3])<<8|int(head[4]) > 512 {
			return
		}
		secure := tls.Server(peeked{c, in}, conf)
		if secure.Handshake() == nil {
			answer("200 OK", "")(secure, bufio.NewReader(secure), stop)
		}
		_ = secure.Close()
	}
}

func TestOlderTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certs := []tls.Certificate{ca.issueRSA(t), ca.issue(t, nil)}
	ok := answer("200 OK", "")
	for name, addr := range map[string]string{
		"TLS 1.0": listen(t, &tls.Config{Certificates: certs[1:], MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, ok),
		"RSA key exchange": listen(t, &tls.Config{Certificates: certs[:1], MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}, ok),
		"small messages only": listen(t, nil, smallHello(&tls.Config{Certificates: certs})),
	} {
		t.Run(name, func(t *testing.T) {
			r, h := fixedRoute("https://"+addr), newHandler(t, Options{})
			r.CAFile = ca.file
			res := h.Handle(background(t), r, testNotice("x"))
			expect(t, res, retry, notice.ReasonTLS)
			if !strings.Contains(res.Response, "_TLS=compatible") {
				t.Error(res.Response)
			}
			if !h.OlderTLSCures(t.Context(), r, addr) {
				t.Error("the cure is not found")
			}
			older := *r
			older.TLSCompatible = true
			expect(t, h.Handle(background(t), &older, testNotice("x")), delivered, "")
		})
	}
}

// The hint is for failures that an older TLS cures.
func TestOlderTLSIsNotNamedInVain(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	addr := listen(t, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}, answer("200 OK", ""))
	r, h := fixedRoute("https://"+addr), newHandler(t, Options{})
	res := h.Handle(background(t), r, testNotice("x")) // an unknown authority
	if res.Reason != notice.ReasonTLS || strings.Contains(res.Response, "compatible") || h.OlderTLSCures(t.Context(), r, addr) {
		t.Errorf("%+v", res)
	}
	r.CAFile = ca.file
	if h.OlderTLSCures(t.Context(), r, addr) {
		t.Error("nothing fails")
	}
	r.TLSCompatible = true
	gone := listen(t, nil, func(net.Conn, *bufio.Reader, <-chan struct{}) {})
	r.Target, _ = route.ParseTarget("https://" + gone)
	if res := h.Handle(background(t), r, testNotice("x")); strings.Contains(res.Response, "compatible") {
		t.Errorf("%+v", res)
	}
}

// Only a route with a client certificate accepts that the receiver starts a second handshake, and only one.
func TestOlderTLSRenegotiatesOnce(t *testing.T) {
	t.Parallel()
	for cert, want := range map[string]tls.RenegotiationSupport{"": tls.RenegotiateNever, "cert.pem": tls.RenegotiateOnceAsClient} {
		conf := &tls.Config{NextProtos: []string{"h2"}}
		acceptOlderTLS(conf, &route.Route{CertFile: cert})
		if conf.Renegotiation != want || len(conf.NextProtos) > 0 {
			t.Errorf("%q: %v, %v", cert, conf.Renegotiation, conf.NextProtos)
		}
	}
}

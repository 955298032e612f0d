package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"notifier/internal/route"
	"notifier/internal/transport"
)

// acceptOlderTLS changes the settings for receivers with an older TLS. Without TLS 1.3 the first message is small.
func acceptOlderTLS(conf *tls.Config, r *route.Route) {
	conf.MinVersion, conf.MaxVersion = tls.VersionTLS10, tls.VersionTLS12
	conf.NextProtos, conf.ClientSessionCache = nil, nil
	conf.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384, tls.CurveP521}
	conf.CipherSuites = nil
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) { // with RSA key exchange
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS12) && !strings.Contains(suite.Name, "RC4") {
			conf.CipherSuites = append(conf.CipherSuites, suite.ID)
		}
	}

	if r.CertFile != "" { // servers ask again for a certificate that only some paths require
		conf.Renegotiation = tls.RenegotiateOnceAsClient
	}
}

// olderTLSErrors are the texts of errors that the setting TLS=compatible may cure.
var olderTLSErrors = []string{"protocol version", "handshake failure", "insufficient security", "no renegotiation"}

// wantsOlderTLS reports whether the setting TLS=compatible may cure the failure of a handshake.
func wantsOlderTLS(err error) bool {
	text := err.Error()
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		slices.ContainsFunc(olderTLSErrors, func(s string) bool { return strings.Contains(text, s) })
}

// OlderTLSCures reports whether the handshake with a receiver of the route, given as host:port, fails and would succeed
// with the setting TLS=compatible. It opens two connections.
func (h *Handler) OlderTLSCures(ctx context.Context, r *route.Route, receiver string) bool {
	if r.TLSCompatible {
		return false
	}

	err := h.tryHandshake(ctx, r, receiver)
	if err == nil || !wantsOlderTLS(err) {
		return false
	}

	older := *r
	older.TLSCompatible = true
	return h.tryHandshake(ctx, &older, receiver) == nil
}

func (h *Handler) tryHandshake(ctx context.Context, r *route.Route, receiver string) error {
	var g *guard
	if r.Target.Kind == route.KindNotice {
		g = &guard{r}
	}

	p, err := h.newTransport(r, g)
	if err != nil {
		return err
	}

	defer p.Close()

	return p.Handshake(ctx, transport.Origin{Addr: receiver, Secure: true})
}

package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	netproxy "golang.org/x/net/proxy"
)

// Proxy is an outbound proxy.
type Proxy struct {
	addr  string
	conf  *tls.Config // of the connection to the proxy; nil: without TLS
	auth  string      // Proxy-Authorization; empty: none
	socks socksDialer // nil: an HTTP proxy
}

// socksDialer asks a SOCKS proxy, to which c is connected, for a connection to an address.
type socksDialer interface {
	DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
}

var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// NewProxy returns the proxy with that address; nil without one. An https proxy uses the TLS settings conf.
func NewProxy(u *url.URL, conf *tls.Config) (*Proxy, error) {
	if u == nil {
		return nil, nil
	}

	port := u.Port()
	if port == "" {
		port = proxyPorts[u.Scheme]
	}

	p := &Proxy{addr: net.JoinHostPort(u.Hostname(), port)}
	switch u.Scheme {
	case "socks5", "socks5h":
		return p, p.setSOCKS(u.User)
	case "https":
		p.conf = conf.Clone()
		p.conf.ServerName = u.Hostname()
	}

	if u.User != nil {
		p.auth = BasicAuth(u.User)
	}

	return p, nil
}

func (p *Proxy) setSOCKS(user *url.Userinfo) error {
	var auth *netproxy.Auth
	if user != nil {
		pw, _ := user.Password()
		auth = &netproxy.Auth{User: user.Username(), Password: pw}
	}

	d, err := netproxy.SOCKS5("tcp", p.addr, auth, netproxy.Direct)
	if err != nil {
		return err
	}

	var ok bool
	if p.socks, ok = d.(socksDialer); !ok {
		return errors.New("golang.org/x/net/proxy has no DialWithConn")
	}

	return nil
}

// forwards reports whether requests to o are sent to the proxy itself, which makes the call. Other connections are
// tunnels.
func (p *Proxy) forwards(o Origin) bool { return p != nil && p.socks == nil && !o.Secure }

// share returns the origin by which connections to o are kept. All forwarded requests share connections to the proxy.
func (p *Proxy) share(o Origin) Origin {
	if p.forwards(o) {
		return Origin{Addr: p.addr}
	}
	return o
}

// dialProxy opens a TCP connection to o, or to the proxy. conn is the connection on which the exchange with o can start.
func (p *Pool) dialProxy(ctx context.Context, x *Exchange, o Origin) (tcp, conn net.Conn, err error) {
	ctx = httptrace.WithClientTrace(ctx, x.Progress.dialTrace())
	if p.o.Proxy == nil {
		tcp, err = p.o.Dial(ctx, "tcp", o.Addr)
		return tcp, tcp, err
	}

	tcp, err = p.o.Dial(ctx, "tcp", p.o.Proxy.addr)
	if err != nil {
		return nil, nil, &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}
	}

	stop := context.AfterFunc(ctx, func() { _ = tcp.SetDeadline(past) })
	conn, err = p.tunnel(ctx, tcp, x.Request.Origin)
	if !stop() && err == nil {
		err = ctx.Err()
	}

	if err != nil {
		_ = tcp.Close()
	}

	return tcp, conn, err
}

// tunnel makes the proxy connect to the target, unless it forwards requests.
func (p *Pool) tunnel(ctx context.Context, tcp net.Conn, target Origin) (net.Conn, error) {
	if p.o.Proxy.socks != nil {
		_, err := p.o.Proxy.socks.DialWithConn(ctx, tcp, "tcp", target.Addr)
		if err != nil {
			err = &net.OpError{Op: "socks connect", Net: "tcp", Err: err}
		}

		return tcp, err
	}

	conn := tcp
	if p.o.Proxy.conf != nil {
		secure := tls.Client(tcp, p.o.Proxy.conf)
		if err := handshake(ctx, secure, p.o.TLSTimeout); err != nil {
			return nil, err
		}

		conn = secure
	}

	if p.o.Proxy.forwards(target) {
		return conn, nil
	}

	return conn, p.o.Proxy.connect(conn, target.Addr)
}

// connect sends a CONNECT request.
func (p *Proxy) connect(c net.Conn, addr string) error {
	head := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if p.auth != "" {
		head += "Proxy-Authorization: " + p.auth + "\r\n"
	}

	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}
	}

	br := bufio.NewReader(io.LimitReader(c, MaxHead))
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}
	}

	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &ProxyError{resp.StatusCode, http.MethodConnect, proxyCause(resp.Header)}
	}

	if br.Buffered() > 0 { // TLS starts with the client
		return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: errors.New("the proxy sent data after its answer to CONNECT")}
	}

	return nil
}

// ProxyError means that the proxy refused to connect to the target.
type ProxyError struct {
	status int
	to     string // CONNECT, or empty for a request that the proxy was to forward
	cause  string // that the answer names; may be empty
}

// Error implements error.
func (e *ProxyError) Error() string {
	text := fmt.Sprintf("the proxy answered %d %s", e.status, http.StatusText(e.status))
	if e.to != "" {
		text += " to " + e.to
	}

	if e.cause != "" {
		text += ": " + e.cause
	}

	return text
}

// ByProxy returns a [ProxyError] if a proxy has answered a forwarded request itself. Other answers are the receiver's.
func ByProxy(status int, h http.Header) error {
	cause := proxyCause(h)
	if status != http.StatusProxyAuthRequired && (status < 500 || status > 599 || cause == "") {
		return nil
	}

	return &ProxyError{status: status, cause: cause}
}

// proxyCause returns the error that a proxy names in the headers of its answer, or an empty text.
func proxyCause(h http.Header) string {
	for _, status := range h.Values("Proxy-Status") { // RFC 9209
		if _, cause, ok := strings.Cut(status, "error="); ok {
			cause, _, _ = strings.Cut(cause, ";")
			return cause
		}
	}

	return h.Get("X-Squid-Error")
}

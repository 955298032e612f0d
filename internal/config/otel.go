package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// OTel are the values of the OTEL_ variables.
type OTel struct {
	// Traces and Metrics are nil if they are not exported.
	Traces, Metrics *OTLPEndpoint
	Sampler         TraceSampler
	// Resource has the attributes of the variables.
	Resource []attribute.KeyValue
	// Interval is the time between two exports of metrics.
	Interval time.Duration
	// Queue bounds the spans that wait, Batch those of a request. A span waits no longer than Delay.
	Queue, Batch int
	Delay        time.Duration
}

// TraceSampler decides which traces are recorded.
type TraceSampler struct {
	Name  string  // as OTEL_TRACES_SAMPLER names it
	Ratio float64 // of recorded traces, for names that end in traceidratio
}

// TraceSamplers are the names of samplers.
var TraceSamplers = []string{defaultSampler, "parentbased_always_off", "parentbased_traceidratio", "always_on", "always_off",
	"traceidratio"}

// OTLPEndpoint is where a signal is exported to.
type OTLPEndpoint struct {
	URL     *url.URL // may hold a password
	Headers map[string]string
	Timeout time.Duration
	Gzip    bool
	TLS     *tls.Config // nil = the system's authorities
}

// String is the endpoint without its password and query.
func (e *OTLPEndpoint) String() string { return e.URL.Scheme + "://" + e.URL.Host + e.URL.Path }

// GoString keeps the password and the headers out of %#v.
func (e *OTLPEndpoint) GoString() string { return e.String() }

// MarshalText keeps them out of JSON and logs.
func (e *OTLPEndpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// OTelSource is where variables and files are read from.
type OTelSource interface {
	// Variable returns a variable's value, empty if it is not set.
	Variable(name string) string
	File(name string) ([]byte, error)
	// Wrong reports a variable. An empty value is not shown.
	Wrong(name, value, want string)
}

const defaultSampler = "parentbased_always_on"

const otlpPrefix = "OTEL_EXPORTER_OTLP_"

// ReadOTel reads the variables. Variables of signals that are off are not checked.
func ReadOTel(from OTelSource) OTel {
	r := otelReader{from}
	if strings.EqualFold(from.Variable("OTEL_SDK_DISABLED"), "true") {
		return OTel{}
	}

	s := OTel{Traces: r.endpoint("TRACES", "/v1/traces"), Metrics: r.endpoint("METRICS", "/v1/metrics")}
	if s.Traces == nil && s.Metrics == nil {
		return OTel{}
	}

	s.Sampler = r.sampler(cmp.Or(r.Variable("OTEL_TRACES_SAMPLER"), defaultSampler))
	s.Resource = r.resource()
	s.Interval = r.milliseconds("OTEL_METRIC_EXPORT_INTERVAL", time.Minute)
	s.Delay = r.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5*time.Second)
	s.Queue = r.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
	s.Batch = min(r.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512), s.Queue)
	return s
}

type otelReader struct{ OTelSource }

// of is a variable of one signal, or that of all signals. name is that of the variable found.
func (r otelReader) of(signal, variable string) (name, value string) {
	if name = otlpPrefix + signal + "_" + variable; r.Variable(name) != "" {
		return name, r.Variable(name)
	}
	return otlpPrefix + variable, r.Variable(otlpPrefix + variable)
}

// endpoint reads the variables of a signal. It returns nil if the signal is off or wrong.
func (r otelReader) endpoint(signal, path string) *OTLPEndpoint {
	exporter := r.Variable("OTEL_" + signal + "_EXPORTER")
	switch exporter {
	case "none":
		return nil
	case "", "otlp":
	default:
		r.Wrong("OTEL_"+signal+"_EXPORTER", exporter, "want otlp or none")
		return nil
	}

	if name, protocol := r.of(signal, "PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		r.Wrong(name, protocol, "want http/protobuf, the only protocol that is built in; collectors take it on port 4318")
	}

	e := &OTLPEndpoint{URL: r.endpointURL(signal, path, exporter == "otlp")}
	if e.URL == nil {
		return nil
	}

	e.Headers = r.headers(signal)
	name, timeout := r.of(signal, "TIMEOUT")
	e.Timeout = r.span(name, timeout, 10*time.Second)
	name, compression := r.of(signal, "COMPRESSION")
	if e.Gzip = compression == "gzip"; !e.Gzip && compression != "" && compression != "none" {
		r.Wrong(name, compression, "want gzip or none")
	}

	e.TLS = r.tls(signal)
	return e
}

// url reads an endpoint and adds the path of its signal. It may hold a password, so that the
// error does not quote it.
func (r otelReader) url(name, text, path string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		r.Wrong(name, "", "want http://host:4318 or https://host:4318 (the value is not shown)")
		return nil
	}

	if path != "" { // an endpoint of one signal is used unchanged
		u.Path = strings.TrimSuffix(u.Path, "/") + path
	}

	return u
}

// headers reads name=value pairs, whose values are encoded as in a URL. They may be secret.
func (r otelReader) headers(signal string) map[string]string {
	name, text := r.of(signal, "HEADERS")
	m := map[string]string{}
	for _, h := range r.pairs(name, text, false) {
		m[string(h.Key)] = h.Value.AsString()
	}

	return m
}

// pairs reads name=value,name=value. The values are encoded as in a URL.
func (r otelReader) pairs(name, text string, show bool) (list []attribute.KeyValue) {
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}

		k, v, ok := strings.Cut(part, "=")
		v, err := url.PathUnescape(strings.TrimSpace(v))
		if k = strings.TrimSpace(k); !ok || err != nil || k == "" {
			if !show {
				text = ""
			}

			r.Wrong(name, text, "want name=value,name=value with values encoded as in a URL")
			return nil
		}

		list = append(list, attribute.String(k, v))
	}

	return list
}

// resource reads the attributes of the process.
func (r otelReader) resource() []attribute.KeyValue {
	list := r.pairs("OTEL_RESOURCE_ATTRIBUTES", r.Variable("OTEL_RESOURCE_ATTRIBUTES"), true)
	if name := r.Variable("OTEL_SERVICE_NAME"); name != "" {
		list = append(list, attribute.String("service.name", name)) // the last of a name counts
	}

	return list
}

// sampler reads the sampler of roots.
func (r otelReader) sampler(name string) TraceSampler {
	out := TraceSampler{Name: name, Ratio: 1}
	if strings.HasSuffix(name, "traceidratio") {
		out.Ratio = r.ratio()
	}

	if !slices.Contains(TraceSamplers, name) {
		r.Wrong("OTEL_TRACES_SAMPLER", name, "want always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or "+
			"parentbased_traceidratio")
	}

	return out
}

func (r otelReader) milliseconds(name string, otherwise time.Duration) time.Duration {
	return r.span(name, r.Variable(name), otherwise)
}

func (r otelReader) span(name, text string, otherwise time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > int(24*time.Hour/time.Millisecond) {
		r.Wrong(name, text, "want milliseconds, from 1 to 86400000")
		return otherwise
	}

	return time.Duration(n) * time.Millisecond
}

func (r otelReader) number(name string, otherwise int) int {
	text := r.Variable(name)
	if text == "" {
		return otherwise
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		r.Wrong(name, text, "want a number from 1 to 1000000")
		return otherwise
	}

	return n
}

// tls reads the certificates. It returns nil if there are none.
func (r otelReader) tls(signal string) *tls.Config {
	caName, ca := r.of(signal, "CERTIFICATE")
	certName, cert := r.of(signal, "CLIENT_CERTIFICATE")
	keyName, key := r.of(signal, "CLIENT_KEY")
	if ca == "" && cert == "" && key == "" {
		return nil
	}

	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		c.RootCAs = x509.NewCertPool()
		if pem, err := r.File(ca); err != nil || !c.RootCAs.AppendCertsFromPEM(pem) {
			r.Wrong(caName, ca, "want the name of a file with certificates in PEM")
		}
	}

	if cert == "" && key == "" {
		return c
	}

	c.Certificates = r.certificate(certName, cert, keyName, key)
	return c
}

// certificate returns the client certificate in the files of two variables.
func (r otelReader) certificate(certName, cert, keyName, key string) []tls.Certificate {
	certPEM, err := r.File(cert)
	if err != nil {
		r.Wrong(certName, cert, "want the name of a file with a certificate in PEM, and its key in "+keyName)
		return nil
	}

	keyPEM, err := r.File(key)
	if err != nil {
		r.Wrong(keyName, key, "want the name of a file with the key of "+certName+" in PEM")
		return nil
	}

	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		r.Wrong(certName, cert, "want a certificate in PEM that fits the key in "+keyName)
		return nil
	}

	return []tls.Certificate{pair}
}

// ratio returns the ratio of sampled traces.
func (r otelReader) ratio() float64 {
	arg := r.Variable("OTEL_TRACES_SAMPLER_ARG")
	if arg == "" {
		return 1
	}

	ratio, err := strconv.ParseFloat(arg, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		r.Wrong("OTEL_TRACES_SAMPLER_ARG", arg, "want a number from 0 to 1")
		return 1
	}

	return ratio
}

// endpointURL returns the URL of a signal's endpoint; nil if none is configured. byDefault: the collector on this host
// is the default.
func (r otelReader) endpointURL(signal, path string, byDefault bool) *url.URL {
	own, all := r.Variable(otlpPrefix+signal+"_ENDPOINT"), r.Variable(otlpPrefix+"ENDPOINT")
	switch {
	case own != "":
		return r.url(otlpPrefix+signal+"_ENDPOINT", own, "")
	case all != "" || byDefault:
		return r.url(otlpPrefix+"ENDPOINT", cmp.Or(all, "http://localhost:4318"), path)
	}

	return nil
}

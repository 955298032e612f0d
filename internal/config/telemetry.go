package config

// telemetrySource reads the OTEL_ variables, which have no prefix of this service.
type telemetrySource struct{ r *reader }

// Variable implements OTelSource.
func (s telemetrySource) Variable(name string) string {
	v, _ := s.r.value(name)
	return v
}

// File implements OTelSource.
func (s telemetrySource) File(name string) ([]byte, error) { return s.r.readFile(name) }

// Wrong implements OTelSource.
func (s telemetrySource) Wrong(name, value, want string) { s.r.add(name, value, want) }

// telemetryText names the endpoints of exported spans and metrics; empty if none.
func telemetryText(s OTel) string {
	text := ""
	if s.Traces != nil {
		text = "OpenTelemetry: traces to " + s.Traces.String() + ", sampler " + s.Sampler.Name
	}

	if s.Metrics == nil {
		return text
	}
	if text == "" {
		return "OpenTelemetry: metrics to " + s.Metrics.String()
	}

	return text + "; metrics to " + s.Metrics.String()
}

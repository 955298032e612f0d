// Package otelenv reads the environment variables of OpenTelemetry, which say where spans and metrics are exported to.
// Package telemetry exports them.
package otelenv

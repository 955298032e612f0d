package acceptance

import (
	"debug/buildinfo"
	"testing"
)

// OpenTelemetry's own exporters link grpc, which is larger than all that tracing needs.
func TestBinaryLinksNoGRPC(t *testing.T) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]bool{}
	for _, m := range info.Deps {
		modules[m.Path] = true
	}
	if !modules["go.opentelemetry.io/proto/slim/otlp"] || modules["google.golang.org/grpc"] {
		t.Errorf("the program links %v", modules)
	}
}

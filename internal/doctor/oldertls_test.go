package doctor

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/testkit"
)

func TestExamineNamesReceiversWithOlderTLS(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	file := filepath.Join(t.TempDir(), "ca.pem")
	receiver := func(most uint16) string {
		h := httptest.NewUnstartedServer(nil)
		h.TLS, h.Config.ErrorLog = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: most}, log.New(io.Discard, "", 0)
		h.StartTLS()
		t.Cleanup(h.Close)
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
		if err := os.WriteFile(file, ca, 0o600); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(h.URL, "https://")
	}
	older, newer := receiver(tls.VersionTLS10), receiver(tls.VersionTLS13)
	rt := cfg.Routes[0]
	rt.Name, rt.CAFile = "pay-orders", file
	rt.Target, _ = route.ParseTarget("https://" + older)
	now := time.Now().UnixMilli()
	for _, name := range []string{older, newer} {
		field := fmt.Sprintf("%d 0 3 %d %d 0 tls", now-1000, now-1000, now)
		if err := s.Client().HSet(t.Context(), keys.Space{Namespace: "notifier"}.Health(rt.Prefix), name, field).Err(); err != nil {
			t.Fatal(err)
		}
	}
	found := func() (list []Finding) {
		for _, f := range examine(t, cfg, Options{}).Findings {
			if f.Check == "receivers" {
				list = append(list, f)
			}
		}
		return list
	}
	list := found()
	if len(list) != 1 || list[0].Severity != Warning || !strings.Contains(list[0].Message, older+" of route pay-orders") ||
		!strings.Contains(list[0].Remedy, "NOTIFIER_ROUTE_PAY_ORDERS_TLS=compatible") {
		t.Errorf("%+v", list)
	}
	rt.TLSCompatible = true
	if list := found(); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}

package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Another module builds with the client as the package doc describes, without the network and without
// further modules.
func TestClientIsImportedByOtherModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSpace(string(module))
	lines := []string{"require " + path + " v0.0.0", "replace " + path + " => " + root}
	if !strings.Contains(path, ".") { // no host: the package comment has these lines
		lines = nil
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "//"))
		if strings.HasPrefix(line, "require ") || strings.HasPrefix(line, "replace ") {
			lines = append(lines, strings.Replace(line, "../notifier", root, 1))
		}
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module shop.example/orders\n\ngo 1.26.0\n\n" + strings.Join(lines, "\n") + "\n",
		"main.go": `package main

import (
	"context"
	"os"
	"time"

	"` + path + `/client"
	"` + path + `/client/webhook"
)

func main() {
	c, err := client.New(client.Options{URL: os.Getenv("NOTIFIER_URL")})
	if err == nil {
		_, err = c.Schedule(context.Background(), client.Request{Key: "shop:orders:paid:1", Delay: 15 * time.Second})
	}
	if err == nil {
		_, err = webhook.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	}
	if err != nil {
		os.Exit(1)
	}
}
`,
		"main_test.go": `package main

import (
	"os"
	"os/exec"
	"testing"

	"` + path + `/client/clienttest"
)

func TestMainSchedules(t *testing.T) {
	if os.Getenv("NOTIFIER_URL") != "" {
		main()
		return
	}
	s := clienttest.New(clienttest.Options{Routes: []clienttest.Route{{Name: "log", Target: "log"}}})
	defer s.Close()
	cmd := exec.Command(os.Args[0], "-test.run=TestMainSchedules")
	cmd.Env = append(os.Environ(), "NOTIFIER_URL="+s.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := s.Client().Get(t.Context(), "shop:orders:paid:1"); err != nil {
		t.Fatal(err)
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s\n%s", strings.Join(args, " "), err, out, strings.Join(lines, "\n"))
		}
		return string(out)
	}
	run("vet", "./...")
	run("test", "./...")
	for pkg := range strings.FieldsSeq(run("list", "-deps", "-test", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./...")) {
		if !strings.HasPrefix(pkg, path+"/client") && !strings.HasPrefix(pkg, "shop.example/orders") && !strings.HasPrefix(pkg, "[shop.") {
			t.Errorf("the client imports %s", pkg)
		}
	}
}

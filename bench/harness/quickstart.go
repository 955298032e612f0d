package harness

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"notifier/bench/peer"
	"notifier/bench/server"
)

func quickstartCase() Case {
	return Case{Name: "quickstart", Title: "The smallest program",
		What: "Of the programs in bench/quickstart, which schedule one job and handle it until a signal: lines that are neither empty nor a " +
			"comment; and as a separate module that requires only the library, after go mod tidy: lines of go.sum, modules whose " +
			"versions go.mod sets, and the size of the stripped program. MB are 1,000,000 bytes.",
		Columns: []Column{{"lines", "lines"}, {"sums", "lines of go.sum"}, {"modules", "modules in go.mod"},
			{"mb", "program, MB"}},
		Only: func(i peer.Info) bool { return i.Quickstart != "" },
		Run:  func(ctx context.Context, b *Bench) Values { return must(Quickstart(ctx, b.Env.Dir, b.Info)) }}
}

// Quickstart measures the smallest program of a peer. dir is a scratch directory.
func Quickstart(ctx context.Context, dir string, info peer.Info) (v Values, err error) {
	defer failed(&err)
	module, text := quickstartModule(ctx, dir, info)
	v = Values{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			v["lines"]++
		}
	}

	sums := must(os.ReadFile(filepath.Join(module, "go.sum")))

	v["sums"] = float64(strings.Count(string(sums), "\n"))
	out := must(goCommand(ctx, module, nil, "mod", "edit", "-json"))

	var edit struct{ Require []any }
	check(json.Unmarshal(out, &edit))

	v["modules"] = float64(len(edit.Require))
	program := filepath.Join(dir, "quickstart-program")
	must(goCommand(ctx, module, nil, "build", "-ldflags", "-s -w", "-o", program, "."))

	stat := must(os.Stat(program))

	v["mb"] = float64(stat.Size()) / 1e6
	return v, nil
}

// quickstartModule makes a module of a peer's smallest program. It requires the versions that this module does. It
// returns its directory and the program.
func quickstartModule(ctx context.Context, dir string, info peer.Info) (module, text string) {
	bench := server.ModuleDir()
	b := must(os.ReadFile(filepath.Join(bench, "quickstart", info.Quickstart, "main.go")))

	modules := info.Modules
	if len(modules) == 0 {
		path := must(goCommand(ctx, filepath.Dir(bench), nil, "list", "-m"))

		modules = []string{strings.TrimSpace(string(path))}
	}

	const format = `require {{.Path}} {{.Version}}{{with .Replace}}{{"\n"}}replace {{$.Path}} => {{.Dir}}{{end}}`
	mod := must(goCommand(ctx, bench, nil, append([]string{"list", "-m", "-f", format}, modules...)...))

	module = filepath.Join(dir, "quickstart-module")
	check(os.Mkdir(module, 0o755))

	for name, content := range map[string]string{"main.go": string(b), "go.mod": "module quickstart\n\ngo 1.26.0\n\n" + string(mod)} {
		check(os.WriteFile(filepath.Join(module, name), []byte(content), 0o644))
	}

	must(goCommand(ctx, module, nil, "mod", "tidy"))
	return module, string(b)
}

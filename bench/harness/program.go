package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// The prefixes of the values by module in the program case.
const (
	SecondsOf = "seconds:"
	MBOf      = "mb:"
)

// starts is how often the program case starts the service.
const starts = 5

// programCase measures the program itself, not its work.
func programCase() Case {
	return Case{Name: "program", Title: "The program",
		What: fmt.Sprintf("go build ./cmd/notifier with an empty build cache and downloaded modules, without a C compiler; the stripped "+
			"program's size; the time from its start to the first 200 from /readyz, median of %d; its resident memory %s later, with one route. "+
			"MB are 1,000,000 bytes.", starts, idleMemoryAfter),
		Columns: []Column{{"build_s", "build, s"}, {"mb", "stripped, MB"}, {"start_ms", "start, ms"},
			{"idle_mb", "idle memory, MB"}, {"idle_own_mb", "without its file, MB"}},
		Only: overHTTP, Run: measureProgram}
}

// idleMemoryAfter is long enough for the work of the start.
const idleMemoryAfter = 5 * time.Second

func measureProgram(ctx context.Context, b *Bench) Values {
	v, root, env := Values{}, filepath.Dir(server.ModuleDir()), freshCache(b.Env.Dir)
	coldBuild(ctx, b.Env.Dir, root, env, v)
	stripped := filepath.Join(b.Env.Dir, "stripped")
	must(goCommand(ctx, root, env, "build", "-ldflags", "-s -w", "-o", stripped, "./cmd/notifier"))

	info := must(os.Stat(stripped))

	v["mb"] = float64(info.Size()) / 1e6
	startProgram(ctx, b, stripped, v)
	return v
}

// goCommand runs go in a module, with additions to the environment.
func goCommand(ctx context.Context, module string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, lastLines(string(exit.Stderr), 4))
		}

		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}

	return out, nil
}

// freshCache is the environment of builds without a C compiler and with a build cache in dir.
func freshCache(dir string) []string {
	return []string{"CGO_ENABLED=0", "GOCACHE=" + filepath.Join(dir, "cache")}
}

// coldBuild adds how long the first build takes, and by module the seconds of compiling and the MB of the result.
func coldBuild(ctx context.Context, dir, root string, env []string, v Values) {
	graph, program := filepath.Join(dir, "actions.json"), filepath.Join(dir, "cold")
	from := time.Now()
	must(goCommand(ctx, root, env, "build", "-debug-actiongraph="+graph, "-o", program, "./cmd/notifier"))

	v["build_s"] = time.Since(from).Seconds()
	list := must(goCommand(ctx, root, env, "list", "-deps", "-f", "{{.ImportPath}}{{with .Module}} {{.Path}}{{end}}", "./cmd/notifier"))

	actions := must(os.ReadFile(graph))
	check(secondsByModule(actions, string(list), v))

	sizes := must(goCommand(ctx, root, env, "run", "./internal/tools", "binsize", program))

	check(mbByModule(string(sizes), v))
}

// standardLibrary is what binsize calls the packages without a module.
const standardLibrary = "standard library and runtime"

// secondsByModule adds up how long the compiler worked for each module. list has a line for each package: its path
// and its module, if it has one.
func secondsByModule(actions []byte, list string, v Values) error {
	var all []struct {
		Mode, Package       string
		TimeStart, TimeDone time.Time
	}
	if err := json.Unmarshal(actions, &all); err != nil {
		return fmt.Errorf("read the actions of the build: %w", err)
	}

	modules := map[string]string{}
	for line := range strings.Lines(list) {
		path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules[path] = module
	}

	for _, a := range all {
		name := modules[a.Package]
		switch {
		case a.Mode == "link":
			name = "linker"
		case a.Mode != "build":
			continue
		case name == "":
			name = standardLibrary
		}

		v[SecondsOf+name] += a.TimeDone.Sub(a.TimeStart).Seconds()
	}

	return nil
}

// mbByModule reads what binsize prints: a line for each module, with the MB first and the name last.
func mbByModule(out string, v Values) error {
	for line := range strings.Lines(out) {
		head, name, ok := strings.Cut(strings.TrimSpace(line), "  code ")
		if !ok {
			continue // the sum
		}

		_, name, _ = strings.Cut(name, "tables ")
		_, name, ok = strings.Cut(strings.TrimSpace(name), "  ")
		var mb float64
		if _, err := fmt.Sscanf(head, "%f", &mb); err != nil || !ok {
			return fmt.Errorf("binsize printed %q", line)
		}

		v[MBOf+name] = mb
	}

	return nil
}

// startProgram adds how long the program takes to start, and the memory that it then has.
func startProgram(ctx context.Context, b *Bench, program string, v Values) {
	var took []float64
	for n := range starts {
		from := time.Now()
		p := must(server.Notifier(ctx, server.Command{Name: fmt.Sprintf("start%d", n), Path: program, Dir: b.Env.Dir,
			Env: []string{"NOTIFIER_ROUTES=bench", "NOTIFIER_ROUTE_BENCH_PREFIX=app1", "NOTIFIER_ROUTE_BENCH_TARGET=log",
				"NOTIFIER_LOG_LEVEL=warn"}}, b.Peer.Addr()))
		b.cleanup(p.Stop)
		took = append(took, float64(time.Since(from).Microseconds())/1000)
		if n == starts-1 {
			check(peer.Pause(ctx, idleMemoryAfter))
			v["idle_mb"], v["idle_own_mb"] = float64(must(server.RSS(p.PID())))/1e6, float64(must(server.OwnMemory(p.PID())))/1e6
		}

		check(p.Stop())
	}

	slices.Sort(took)
	v["start_ms"] = Quantile(took, 0.5)
}

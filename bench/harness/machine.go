package harness

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"notifier/bench/server"
)

// Machine is where a run took place.
type Machine struct {
	CPU      string
	Cores    int
	MemoryGB float64
	Kernel   string
	Go       string
	Servers  map[string]string
	Load     string // of the minute before the run
}

// ThisMachine describes the machine and the servers found on it.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), Servers: map[string]string{
		"redis":      server.Version("redis-server", "--version"),
		"postgresql": server.Version("postgres", "--version", server.PostgresPaths...),
		"beanstalkd": server.Version("beanstalkd", "-v"),
		"rabbitmq":   server.PackageVersion("rabbitmq-server"),
	}}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}

	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb float64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %f kB", &kb); err == nil {
			m.MemoryGB = kb / 1024 / 1024
		}
	}

	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(b), " ")
	}

	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "Linux " + strings.TrimSpace(string(b))
	}

	return m
}

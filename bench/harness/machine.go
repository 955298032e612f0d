package harness

import (
	"fmt"
	"runtime"

	"github.com/prometheus/procfs"

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
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}

	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPU = cpus[0].ModelName
	}

	if mem, err := fs.Meminfo(); err == nil {
		m.MemoryGB = float64(*mem.MemTotal) / 1024 / 1024
	}

	if load, err := fs.LoadAvg(); err == nil {
		m.Load = fmt.Sprintf("%.2f", load.Load1)
	}

	if kernel, err := fs.SysctlStrings("kernel.osrelease"); err == nil {
		m.Kernel = "Linux " + kernel[0]
	}

	return m
}

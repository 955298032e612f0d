package doctor

import (
	"fmt"

	"notifier/internal/config"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// MachineCheck is the name of the check of this machine's limits.
const MachineCheck = "machine"

// Machine compares the limits of this process and machine with the configuration. A limit that is too low defers notices when
// all slots are taken.
func Machine(cfg *config.Config) []Finding {
	return limits(cfg, wire.DescriptorLimit(), wire.EphemeralPorts())
}

// limits is Machine for given limits. ports is 0 if unknown.
func limits(cfg *config.Config, descriptors, ports int) (found []Finding) {
	low := func(message, remedy string) {
		found = append(found, Finding{Check: MachineCheck, Severity: Warning, Message: message, Remedy: remedy})
	}
	calls, most := calls(cfg)
	if need := calls + wire.PoolSize + wire.ReservedDescriptors; descriptors < need {
		low(fmt.Sprintf("this process may open %d files; NOTIFIER_CONCURRENCY and the connections to Redis and of the API need %d",
			descriptors, need),
			"raise the hard limit of open files (ulimit -n, LimitNOFILE), or lower NOTIFIER_CONCURRENCY")
	}

	if ports > 0 && ports < most {
		low(fmt.Sprintf("this machine has %d ephemeral ports; up to %d connections to one host may be open", ports, most),
			"widen net.ipv4.ip_local_port_range, or lower HOST_CONCURRENCY")
	}

	if len(found) == 0 {
		found = []Finding{{Check: MachineCheck, Severity: OK, Message: "the limits of files and ports suffice for the configured concurrency"}}
	}

	return found
}

// calls returns the maximum number of concurrent calls, and of those to one host.
func calls(cfg *config.Config) (all, most int) {
	hosts := map[string]int{}
	for _, r := range cfg.Routes {
		n := r.Concurrency
		if r.HostConcurrency > 0 && (n == 0 || r.HostConcurrency < n) {
			n = r.HostConcurrency
		}

		switch r.Target.Kind {
		case route.KindFixed:
			hosts[r.Target.URL.Host] += n
			all += r.Slots()
			most = max(most, hosts[r.Target.URL.Host])
		case route.KindNotice:
			all += r.Concurrency
			most = max(most, n)
		}
	}

	return min(all, cfg.Concurrency), min(most, cfg.Concurrency)
}

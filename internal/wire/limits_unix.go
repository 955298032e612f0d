//go:build unix

package wire

import (
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DescriptorLimit returns how many file descriptors this process may have.
func DescriptorLimit() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || uint64(l.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}

	return int(l.Cur)
}

// EphemeralPorts returns the number of ports for connections to one address; 0 = unknown.
func EphemeralPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}

	f := strings.Fields(string(text))
	if len(f) != 2 {
		return 0
	}

	low, err1 := strconv.Atoi(f[0])
	high, err2 := strconv.Atoi(f[1])
	if err1 != nil || err2 != nil || high < low {
		return 0
	}

	return high - low + 1
}

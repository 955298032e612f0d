//go:build !unix

package wire

import "math"

// DescriptorLimit returns how many file descriptors this process may have.
func DescriptorLimit() int { return math.MaxInt32 }

// EphemeralPorts returns the number of ports for connections to one address; 0 = unknown.
func EphemeralPorts() int { return 0 }

// Package adapter connects the measured systems and the hand-built patterns to the harness, one
// in each file. Each runs at the best settings found for it, which Info.Settings states.
package adapter

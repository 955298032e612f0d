//go:build quick

package sim

const stepsOfATest = 1000

//go:build !quick

package sim

// stepsOfATest is how many steps the simulator takes unless -sim.steps says otherwise.
const stepsOfATest = 3000

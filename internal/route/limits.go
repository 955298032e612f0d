package route

// Scopes of RATE and HOST_CONCURRENCY.
const (
	LimitsFleet    = "fleet"    // all instances share the limit
	LimitsInstance = "instance" // each instance has the limit
)

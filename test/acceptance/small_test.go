package acceptance

import "testing"

// What follows runs with the other tests, in seconds: the faults a payment
// service meets most often.

func TestKilledInstanceRequestInFlightIsRepeated(t *testing.T) { instanceKilled(t, 200) }

func TestKilledRedisLosesNoDueNotice(t *testing.T) { redisKilled(t, 500) }

func TestLadderTimesAreExact(t *testing.T) { ladderKept(t) }

func TestShutdownFinishesRunningHandlers(t *testing.T) { stopFinishes(t, 50) }

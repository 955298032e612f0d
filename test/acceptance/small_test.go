package acceptance

import "testing"

// What follows runs with the other tests, in seconds: the faults a payment
// service meets most often.

func TestInstanceIsKilledWithARequestInHand(t *testing.T) { instanceKilled(t, 200) }

func TestRedisIsKilledAmidDueNotices(t *testing.T) { redisKilled(t, 500) }

func TestLadderIsKeptExactly(t *testing.T) { ladderKept(t) }

func TestStopFinishesWhatRuns(t *testing.T) { stopFinishes(t, 50) }

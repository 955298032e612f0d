// Package acceptance holds no code, only tests that drive the built binary as
// its users do: processes with an environment, calls over HTTP, receivers that
// answer or do not, and a real Redis that is killed, paused, filled and failed
// over.
//
// Most need minutes and the build tag fault: `make fault`. A small part runs
// with the other tests. `make ways` runs them as the user of deploy/users.acl, on TLS, on
// Sentinel and on clusters: a test starts its Redis by newRedis, which makes what
// NOTIFIER_TEST_WAY names, and its services reach it in that way, while the test's own
// client may do anything. What cannot go a way stands in a table, with the reason.
//
// What is asserted exactly: no attempt before its due millisecond, no notice
// lost, none delivered twice. What depends on the machine's load is asserted
// with a wide margin and printed: run with -v to see it.
//
// # Faults
//
// Each fault with the ledger of its calls has one test here:
//
//	master killed, Sentinel or cluster      SentinelsMasterIsKilled, AClustersMasterIsKilled
//	failover by hand, undone or given up    AFailoverByHand, AMasterThatIsBackAmidItsFailover, AFailoverThatIsGivenUp
//	master cut off from its replicas        APartitionUnderSentinel, AStaleMasterOfAClusterConfirmsNothing
//	one master hangs, is paused or dead     OneOfThreeMastersHangs, ANodeIsPausedThrice, OneOfThreeMastersIsDead
//	pushes to a node that is paused         AClusterNodeStopsForSeconds, EntriesOfAListInAClusterComeOnce
//	slot half moved                         ASlotIsHalfMoved
//	power cut, levels of durability         PowerCuts, LevelsOfDurability
//	Redis killed, paused, full              AcknowledgedIsDeliveredWhateverRedisDoes, RedisStopsForSeconds, RedisIsFull
//	subscription cut off or silent          SubscribersAreDropped, SilentSubscription
//	instance killed, frozen, replaced       AKilledInstancesClaimsComeAgainSoon, InstanceStandsStillForALease, RollingRestart
//	database of the history                 EachEndingHasOneRowWhateverTheDatabaseDoes, TheDatabaseGoneDelaysNothing
//
// The other suites do not repeat these. Package chaos makes several faults at a time and
// explains every duplicate, package load has no fault, package timetravel has
// days of ladders in virtual time, and package sim runs the scripts against a model.
//
// All clocks here are one: Redis, the service and the receivers share a
// machine. Due times are compared with Redis's clock inside the scripts, so a
// service whose own clock jumps neither delivers early nor late; see package
// store.
package acceptance

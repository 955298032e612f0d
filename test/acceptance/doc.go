// Package acceptance tests the built binary from outside. The tests start service processes, call the API over HTTP,
// and run receivers that answer or hang. Redis is real: tests kill it, pause it, fill its memory and fail it over.
//
// Most tests need minutes and the build tag fault (`make fault`). A small part runs with the other tests.
//
// Most tests assert exactly that no attempt is early, no confirmed notice is lost, and none is delivered twice unless
// it was in flight at a crash. Figures that depend on the machine's load have a wide margin. The flag -v prints them.
//
// # Connection modes
//
// `make ways` runs the suite in each connection mode: as the user of deploy/users.acl, and over TLS, Sentinel and
// clusters. newRedis starts the kind of Redis that NOTIFIER_TEST_WAY names. The services use that mode, while the
// test's own client has all rights. A table lists the tests that cannot run in a mode, with the reason.
//
// # Faults
//
// Each fault has at least one test here. Most record all schedule calls and check the requests to the receiver:
//
//	master killed, Sentinel or cluster      KilledSentinelMasterLosesNothing, KilledClusterMasterLosesNothing
//	manual failover, restarted master       ManualFailoverLeavesOldMasterUnused, RestartedMasterIsUnusedDuringFailover
//	aborted failover                        AbortedFailoverKeepsMaster
//	master cut off from its replicas        NetworkPartitionUnderSentinel, StaleClusterMasterConfirmsNothing
//	one master hangs or is dead             HangingMasterLeavesOtherShardsOnTime, DeadMasterLeavesOtherShardsServed
//	one node is paused several times        PausedNodeUsesNoAttempts
//	pushes to a node that is paused         PausedClusterNodeLosesNothing, ListInClusterGetsEachEntryOnce
//	slot half moved                         HalfMovedSlotLeavesOtherShardsOnTime
//	power cut, levels of durability         PowerCuts, LevelsOfDurability
//	Redis killed, paused, full              AcknowledgedNoticesSurviveRedisKills, RedisPauseLosesNothing, FullRedisDeliversPendingNotices
//	subscription cut off or silent          DroppedSubscriptionLosesNothing, SilentSubscriptionLosesNothing
//	instance killed or paused               KilledInstanceClaimsAreReclaimed, PausedInstanceSettlesNothingAfterItsLease
//	instances killed while notices die      DeathsReachTheHookThroughKills
//	instances replaced                      RollingRestartLosesNothing
//	workers killed, replaced, all stopped   TwoWorkersBesideTwoServicesThroughKills
//	database of the history                 HistoryHasOneRowPerOutcomeAfterDatabaseFaults, UnavailableDatabaseDelaysNothing
//
// Other suites have other purposes. Package chaos combines faults and explains every duplicate. Package load has no
// faults. Package timetravel tests days of retries in virtual time, and package sim tests the scripts against a model.
//
// # Clocks
//
// Redis, the services and the receivers share one machine and so one clock. A service whose clock jumps still delivers
// on time, because the scripts compare due times with Redis's clock; see package store.
package acceptance

#!/usr/bin/env bash
# Runs the faults of docs/records/faults.txt, each a test that writes a row of its table, and
# prints the table. RECORD=1 writes docs/records/faults.txt, DISTRIBUTED=nightly takes the
# larger sizes and all servers that scripts/servers.sh finds, SERVERS names more of
# them, SEED chooses the notices' keys, RUN the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/page.sh distributed docs/records/faults.txt
tests=KilledSentinelMasterLosesNothing,KilledClusterMasterLosesNothing,HangingMasterLeavesOtherShardsOnTime,HalfMovedSlotLeavesOtherShardsOnTime,PausedNodeUsesNoAttempts,NetworkPartitionUnderSentinel,PowerCuts,ListInClusterGetsEachEntryOnce,AdoptionSurvivesHangingMaster,AdoptionSurvivesKilledMaster,DeadMasterLeavesOtherShardsServed,ServerOfMatrixDeliversOnTime,ThreeMastersShareTheWork,LevelsOfDurability,ComposeVariantsSurviveNetworkPartition
run=${RUN:-^Test(${tests//,/|})\$}
failed=0
# One package after the other: what one does to the processors is not to be seen in
# the rows of the other.
DISTRIBUTED_PAGE=$page scripts/test.sh "./test/acceptance ./test/deploy" -tags fault -p 1 -count 1 -timeout 6h -run "$run" || failed=$?

servers=${SERVERS:-}
if [ "${DISTRIBUTED:-}" = nightly ]; then
	servers+=" $(scripts/servers.sh "$work/servers")"
fi
for server in $servers; do
	echo "distributed: on $server"
	NOTIFIER_TEST_REDIS_SERVER=$server DISTRIBUTED_PAGE=$page scripts/test.sh ./test/acceptance -tags fault -count 1 -timeout 1h \
		-run '^Test(ServerOfMatrixDeliversOnTime|PowerCuts)$/(alone|cluster|=fsync.*everysec)' || failed=$?
done
rows
exit "$failed"

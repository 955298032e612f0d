// Package replay sends again what has ended: notices of a window of time, from the
// history, each under its own key.
//
//	Make:    rows of the window ──▶ judged ──▶ items 1, 2, … in the database
//	Driver:  items ──▶ script, by shard (notice and last number, one step) ──▶ progress in the database
//
// # What holds
//
//   - Which notices a replay holds is chosen once, when it is made, and numbered.
//     A dry run chooses by the same code.
//   - An item is done once, whoever is killed and whenever: the script that
//     schedules it writes its number beside it, in the same shard and step, and does
//     nothing for a number that is not above the last one. Every driver goes
//     through a shard's items in the order of their numbers, so none is left out.
//     What came of them is counted in the same step.
//   - One driver at a time has a replay, for a while that it renews (5 s): the rate
//     is shared by there being one. It protects nothing else; one that was stopped
//     and awakes beside its successor meets the numbers.
//   - What is pending, claimed, or the dead letter of another notice, is never
//     replaced: the item is counted as skipped. What has settled under the key
//     makes room, since the history has it.
//   - A notice comes as what it was: with its made, and so its webhook-id; the
//     numbers of its attempts and endings go on, so that no report of a consumer
//     and no row of the history is taken for an earlier one's. With new ids it is
//     another notice.
//
// # What may be lost
//
// What Redis forgets (its last second, a failover) is forgotten as any notice that
// was scheduled then; the driver does not do it again, because it may have been
// delivered. It is counted as neither sent nor skipped.
//
// Progress is stored by shard. So a replay fails if its shards have changed, or if notices
// move to another Redis or have moved there since it was made. While they move, no replay
// is made or resumed.
package replay

// Package recur has the definitions of recurring notices and computes their ticks. A tick is a time at which a recurrence has an
// occurrence.
//
// A rule is a cron expression in a time zone, or a fixed interval. A cron expression has five fields and the meaning of
// Vixie cron: if both the day of the month and the day of the week are restricted, a day matches if one of them does.
//
// When clocks change, the hour field decides:
//
//   - Fixed hours, as 2 or 1,14 or 9-17, follow the clock. A time that is skipped has its tick at the first minute after
//     the gap; several of one gap have one tick together. A time that occurs twice has its tick the first time.
//   - An hour field with * or a step, as */2, matches each minute that the clock shows. A skipped time has no tick, and
//     a repeated one has two.
//
// Intervals are in elapsed time and do not depend on a zone.
//
// For each tick the service stores one notice, the occurrence. Its key is that of the [Definition] with ~ and a number. Both have the
// same order key, and so the same shard.
//
// [Definition.Plan] returns the next step of a definition: which occurrence to store, and the [State] afterwards. It reads no clock
// and no Redis, so all instances that read the same state plan the same step. A script makes the step only if the state is
// still the same: see package store.
//
// The package is apart from package intake, because package store, which intake imports, stores the definitions.
//
// The zone data are those of the machine, or of the program if the machine has none.
package recur

// Package sim runs the real Lua scripts on a real Redis and compares Redis with a small
// reference model ([note]) after each step. Many virtual instances, producers and
// consumers take one step at a time, in a random order.
//
// A step is an event between two scripts:
//   - a call that succeeds, whose request is lost, or whose reply is lost;
//   - a repeated call;
//   - the crash of an instance at a named point;
//   - an expired lease;
//   - a flush of the scripts;
//   - a restart of Redis that loses its last writes.
//
// No step waits for time to pass. A lease or a delay is either an hour, which never ends
// during a run, or 2 ms, which end before the next step.
//
// A run simulates one kind of world ([kind]):
//   - one prefix;
//   - sequences: one prefix, whose route is ordered;
//   - moves from one prefix to another;
//   - adopted timers, whose events are Redis's own;
//   - reshards;
//   - reshards in which each shard loses writes separately, as the nodes of a cluster do
//     ([parted]);
//   - migrations between two servers, reversed at any command of a mover ([ferry]).
//
// In some runs of moves, of adopted timers and of reshards the routes are ordered too.
//
// In every world a key is claimable in one place at most, unless a node has lost writes.
//
// pgregory.net/rapid shrinks a failing run to a short story. A second part of the package
// makes calls concurrently and records their arguments and replies. Then
// github.com/anishathalye/porcupine searches an order of the calls that explains each
// key's history. Mutants are scripts with one wrong line, and the simulator must find all.
package sim

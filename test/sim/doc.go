// Package sim is a simulator that runs the real Lua scripts on a real Redis. After each step it compares Redis with a
// small reference model ([note]). Many virtual instances, producers and consumers take one step at a time, in a random
// order.
//
// # Steps
//
// A step is an event between two scripts:
//   - a call that succeeds, whose request is lost, or whose reply is lost;
//   - a repeated call;
//   - the crash of an instance at a named point;
//   - an expired lease;
//   - a flush of the scripts;
//   - a restart of Redis that loses its last writes.
//
// No step waits for time to pass. A lease or delay is either an hour, which never ends during a run, or 2 ms, which
// have passed before the next step.
//
// # Worlds
//
// A run simulates one kind of world ([kind]):
//   - one prefix;
//   - sequences: one prefix, whose route is ordered;
//   - moves from one prefix to another;
//   - adopted timers, with the expired events of Redis;
//   - reshards;
//   - reshards in which each shard loses writes separately, as the nodes of a cluster do ([parted]);
//   - migrations between two servers, reversed at any command of a mover ([ferry]).
//
// In some runs of moves, of adopted timers and of reshards the routes are ordered too. In every world a key is
// claimable in at most one shard and prefix, unless a node has lost writes.
//
// # Tools
//
// pgregory.net/rapid chooses the steps and shortens a failing run. A second part of the package makes calls
// concurrently and records their arguments and replies. Then github.com/anishathalye/porcupine searches an order of
// the calls that explains all replies.
//
// Mutants are scripts with one wrong line. The simulator must find all of them.
package sim

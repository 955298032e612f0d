// Package sim is a simulator that runs the real Lua scripts on a real Redis. After each step it compares the state in
// Redis with that of a small reference model ([note]). Many virtual instances, producers and consumers take one step at
// a time, in a random order.
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
// A lease is either an hour, which never ends during a run, or 2 ms. A delay may also be 0. A step with a short lease or
// delay waits until it has ended, so the next step does not depend on the time.
//
// # Worlds
//
// A run simulates one kind of world ([kind]). A prefix is that of the keys of one route:
//   - one prefix;
//   - sequences: one prefix, whose route is ordered;
//   - moves from one prefix to another;
//   - adopted timers, with the expired events of Redis;
//   - reshards;
//   - reshards in which each shard loses writes separately, as the nodes of a cluster do ([parted]);
//   - migrations between two servers, reversed at any command of a mover ([ferry]).
//
// In the first three kinds some notices expire. In some runs of the last five kinds, the routes deliver notices in
// order too. In every world, a notice can be claimed in at most one shard and under one prefix, unless a node has
// lost writes.
//
// # Tools
//
// pgregory.net/rapid chooses the steps and shortens a failing run. A second part of the package makes calls
// concurrently and records their arguments and replies. Then github.com/anishathalye/porcupine searches for an order of
// the calls that explains all replies.
//
// Mutants are scripts with one or a few wrong lines. They test the simulator, which must find the fault of each.
package sim

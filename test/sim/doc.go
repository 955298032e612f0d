// Package sim runs the real scripts on a real Redis with many virtual instances,
// producers and consumers, one step at a time, in an order that chance decides,
// and compares Redis after each step with a small reference model ([note]).
//
// A step is what can happen between two scripts: a call whose reply comes, or is
// lost, or that never reaches Redis; the same call again; an instance that dies
// at a named point; a lease that lapses; scripts that are flushed; a Redis that
// restarts and forgets its last writes. Time is chosen, not waited for: a lease
// or a delay is an hour, which never ends here, or 2 ms, which are over before
// the next step.
//
// There are worlds of several kinds ([kind]): of one prefix; of moves from one
// prefix to another; of adopted timers, whose events Redis itself sends; of reshards,
// in which other shards take the place of those there are. Of these there are such, too,
// in which each shard forgets for itself, as the nodes of a cluster do ([parted]). In worlds
// of migrations notices move between two servers, and back at any command of a mover
// ([ferry]). In every world a key is claimable in one place at most, unless a node has
// lost writes.
//
// What fails is shrunk to a short story by pgregory.net/rapid. The second part
// runs instances at once, records what each call was asked and answered, and has
// github.com/anishathalye/porcupine look for one order that explains each key's
// history. The mutants are scripts with one wrong line: all must be found.
package sim

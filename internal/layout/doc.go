// Package layout describes how the service's data is arranged in one Redis, and keeps instances with an outdated
// description from changing notices. The layout consists of the version of the data, the shards (each stores a part of
// the notices), the key prefixes of all routes, and the role of this Redis in a migration.
//
// # The guard
//
// The hash notifier:meta and the set notifier:routes contain the layout, and each shard has a copy. Every instance
// keeps a digest of the layout in memory, and sends it with scripts that change notices. If the digest of the shard
// differs, such a script writes nothing. The instance then reads the layout and sends the script again ([Layout.Call]).
// So a change of the layout needs no lock and no restart.
//
// # Old shards
//
// A reshard (a change of the number of shards) creates new shards, and moves the notices to them while deliveries
// continue. All shards are numbered, the old ones first. The code calls this number a place. [Layout.Where] returns the
// places of notices.
//
// Notices leave an old shard in batches:
//
//   - [Layout.MoveOut] moves the notices of a batch to a separate hash of the old shard.
//   - [Layout.MoveIn] stores them in the new shard.
//   - [Layout.MoveEnd] deletes the batch in the old shard.
//
// Package move decides when to move a batch. A call that needs a notice of an unfinished batch completes the batch
// first ([Layout.Finish]).
//
// # Migrations
//
// A migration moves all notices to another Redis. Meanwhile each of the two has a role ([Side]), which says which calls
// it accepts.
package layout

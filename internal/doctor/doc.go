// Package doctor checks Redis and the configuration, and suggests how to fix problems.
//
// It checks the connection, the rights of the Redis user, the version, settings and durability of each master, clocks,
// other instances, stored notices, routes, dead-letter hooks and the history's database. Each result is a [Finding]
// with a severity. If something is wrong, it usually has a remedy. An unreachable Redis is a finding too.
//
// A run changes nothing in Redis unless [Options.Fix] is set. Then it changes the setting notify-keyspace-events, the
// eviction policy and the output buffer of subscribers. These changes lose no data, need no restart and can be undone.
package doctor

//go:generate go run ../tools acl ../../deploy/users.acl

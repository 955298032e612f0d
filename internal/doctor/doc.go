// Package doctor checks Redis and the configuration, and suggests how to fix problems.
//
// It checks the connection, the rights of the Redis user, the version, settings and durability of each server, clocks,
// other instances, stored notices and the history's database. Each result is a [Finding] with a severity and, if
// something is wrong, a remedy. An unreachable Redis is a finding too.
//
// A run changes nothing unless [Options.Fix] is set. Then it changes notify flags, the eviction policy and the output
// buffer of subscribers. These changes lose no data, need no restart and can be undone.
package doctor

//go:generate go run ../tools/acl ../../deploy/users.acl

// Package doctor checks Redis and the configuration, grades each finding and suggests a fix.
//
// Checks cover the connection, the user's rights, versions and settings of each server, the durability that the
// configuration promises, clocks, other instances, stored notices and the history's database. Each result is a
// [Finding] with a severity and, if something is wrong, a remedy. An unreachable Redis is a finding too.
//
// A run changes nothing unless [Options].Fix is set. Then it sets only values that lose no data, need no restart and
// can be set back: notify flags, the eviction policy and the subscribers' output buffer.
package doctor

//go:generate go run ../tools/acl ../../deploy/users.acl

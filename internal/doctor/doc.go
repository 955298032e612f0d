// Package doctor looks at Redis as it is, says what is wrong with it for this
// service, how bad that is and what helps, and sets what can be set safely.
//
// It changes nothing unless it is asked to, and then only settings that lose no
// data, cost no restart and can be set back: notify flags, the eviction policy
// and the subscribers' output buffer.
package doctor

//go:generate go run ../tools/acl ../../deploy/users.acl

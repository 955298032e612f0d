// Package embedded runs a temporary Redis for demonstrations and development: a redis-server from PATH or, without one,
// an emulation in this process. All data are lost on Close. Do not use it for payments.
package embedded

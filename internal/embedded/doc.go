// Package embedded runs a temporary Redis for demonstrations and development. It starts a redis-server found
// on PATH in a temporary directory. Without one, it starts an emulation in this process. Neither stores data
// after Close: payments need a real Redis.
package embedded

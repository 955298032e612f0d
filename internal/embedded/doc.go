// Package embedded runs a Redis for demonstrations and development: a
// redis-server found on PATH, in a folder that is thrown away, or else an
// emulation within this process. Neither keeps anything; payments need a real
// Redis.
package embedded

// Package embedded runs a temporary Redis for demonstrations and development, so that they need no installed Redis.
// [Start] runs a redis-server from PATH. If there is none, or it does not start, [Start] runs an emulation in this
// process. [Server.Close] deletes all data, so do not use the package in production.
package embedded

// Package scripts runs scripts/ on copies of the repository. It holds tests
// only.
package scripts

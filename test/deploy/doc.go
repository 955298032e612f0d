// Package deploy checks what is under deploy/ against the service and a
// real Redis. It holds tests only.
package deploy

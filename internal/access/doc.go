// Package access says who may see and change what: the clients of the
// configuration, and the callers that they turn out to be. The API and the pages
// ask it alike.
package access

// Package api is the HTTP API: JSON over HTTP/1.1, errors as RFC 9457
// problems, described by the OpenAPI 3.1 document it serves.
//
// One table of operations (operations.go) holds method, path, parameters,
// statuses and handler of each call. The router and the document are both made
// from it, so neither can name a call that the other does not have.
//
// # What is refused, and in which order
//
// A request is looked at from the outside in, and the first thing that is wrong
// answers it: the length of the address (414), the host and origin when no
// client is configured (421, 403), the path (404), the method (405), the token
// (401), what a read-only client may not do (403), what the caller accepts (406), the content type (415), the size (413),
// the syntax (400), then everything else about it together (422). Nothing is
// written before all of a request has been read and found right.
//
// # Scopes
//
// A client sees and touches only the keys under its prefix. Reading or changing
// anything outside is answered from the key alone, without asking Redis: the
// answer and the time it takes are the same whether or not the notice exists. A
// read-only client is refused every call that is no GET, and receivers' keys,
// before anything else about the call is looked at.
//
// # Bodies
//
// A notice's body is never decoded: the bytes that stood in the request are the
// bytes that are kept and sent. That is why requests are taken apart by the
// small scanner in scan.go instead of being decoded into structs.
package api

//go:generate go run ../tools/apidoc ../../openapi.json

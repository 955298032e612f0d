// Package api implements the HTTP API: JSON over HTTP/1.1, with errors as RFC 9457 problems. It also serves the
// OpenAPI 3.1 document that describes the API.
//
// One table of operations (operations.go) has the method, path, parameters, statuses and handler of each call. Both
// the router and the document are made from this table.
//
// # Order of the checks
//
// A request is checked in this order, and the first failed check determines the answer. A call changes nothing before
// all checks have passed.
//
//	length of the address                               414
//	method                                              405
//	token                                               401
//	host and origin, if no clients are configured       421, 403
//	path                                                404
//	rate of the client                                  429
//	role of the client                                  403
//	accepted content types of the answer                406
//	content encoding and type of the request            415
//	memory for request bodies                           429
//	size of the body                                    413
//	syntax                                              400
//	everything else, reported together                  422
//
// The path is checked after the token, so that a caller without a token does not learn which paths exist.
//
// # Scopes
//
// A client has access only to keys that begin with its prefix. A call for another key is answered without a read from
// Redis. So neither the answer nor its duration shows whether a notice with that key exists. The role of the client
// decides which calls it may make; see [access.Role].
//
// # Bodies
//
// The body of a notice is never decoded: the service stores and sends the bytes of the request. For that reason
// requests are parsed by the small scanner in scan.go, and not decoded into structs.
package api

//go:generate go run ../tools/apidoc ../../openapi.json

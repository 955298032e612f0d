// Package api is the HTTP API: JSON over HTTP/1.1, errors as RFC 9457 problems, described by the
// OpenAPI 3.1 document that it serves.
//
// One table of operations (operations.go) holds the method, path, parameters, statuses and handler
// of each call. The router and the document are both made from this table, so they name the same
// calls.
//
// # Order of the checks
//
// A request is checked in this order, and the first failed check decides the answer:
//
//	length of the address                        414
//	host and origin, if no client is configured  421, 403
//	path                                         404
//	method                                       405
//	token                                        401
//	role of the client                           403
//	accepted content types of the answer         406
//	content type of the request                  415
//	size of the body                             413
//	syntax                                       400
//	everything else, reported together           422
//
// Nothing is written before all checks have passed.
//
// # Scopes
//
// A client has access only to keys under its prefix. A call for a key outside is answered without
// asking Redis. So neither the answer nor its duration shows whether the notice exists. Which calls
// a client may make depends on its role; see [access.Role].
//
// # Bodies
//
// A notice's body is never decoded: the service stores and sends the bytes of the request. For that
// reason requests are parsed by the small scanner in scan.go and not decoded into structs.
package api

//go:generate go run ../tools/apidoc ../../openapi.json

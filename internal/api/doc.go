// Package api implements the HTTP API: JSON over HTTP/1.1, with errors as RFC 9457 problems. It also serves the OpenAPI
// 3.1 document that describes the API.
//
// One table of operations (operations.go) has the method, path, parameters, statuses and handler of each call. Both the
// router and the document are made from this table.
//
// # Order of the checks
//
// A request is checked in about this order. The first failed check determines the answer, and the call changes nothing.
// The items of a batch are checked singly: a faulty item does not stop the others.
//
//	check                                             statuses
//	length of the URL                                 414
//	method                                            405
//	token                                             401, 429
//	host and origin, if no clients are configured     421, 403
//	path                                              404
//	rate of the client                                429
//	role of the client                                403
//	accepted content types of the answer              406
//	content encoding and type of the request          415
//	memory for request bodies                         429
//	size of the body                                  413
//	syntax                                            400
//	everything else                                   403, 404, 422
//
// An unknown path is reported only to a caller whose token is valid. Public operations, such as health checks, skip the
// checks of token, host, rate and role.
//
// # Scopes
//
// A client has access only to keys that begin with its prefix. A call for another key is answered without a read from
// Redis. So neither the answer nor its duration shows whether a notice with that key exists. The role of the client
// decides which calls it may make; see [auth.Role].
//
// # Bodies
//
// The service stores a body that is given as JSON byte for byte, without decoding it. For that reason package codec
// parses requests with a small scanner, which keeps these bytes.
//
// # Test calls
//
// A [TestSender] sends one callback with a test body to the receiver of a stored notice, for the API and the pages. It is
// signed as the route's other callbacks are, and the notice does not change. The key in the callback ends with :test, so
// that a receiver can recognize it.
//
// At each instance, a client may start three tests of a route at once, then six a minute. If the route has a lower rate, a
// client may start one test at once, and others at that rate. Tests do not count for the route's limits. The result
// contains no secret, and values that the dashboard masks are hidden. A client with a prefix gets the outcome, but no content.
//
// # The page for people
//
// GET /docs is the document as one HTML page, which docs.go and docs.templ make at the first request. The page needs no
// script and loads only its style sheet. Links can point to a call or a type, for example /docs#schedule or
// /docs#type-notice. The page is made from the document alone, and knows no call of it.
package api

//go:generate go run ../tools apidoc ../../openapi.json
//go:generate go tool -modfile=../../tools/go.mod templ generate

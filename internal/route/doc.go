// Package route contains the routes. A route is the configuration for all notices whose keys begin
// with one prefix: where they are delivered, how often they are retried, and which limits apply.
//
// A key belongs to the route with the longest prefix that matches. [Table.Match] looks for prefixes
// of one, two or three segments:
//
//	key     app:module:type:id
//	tried   app:module:type, then app:module, then app
//
// # Urls of producers
//
// If a route allows it, each notice has its own url, which is chosen by a producer and not trusted.
// The route checks the url ([Route.CheckTarget]), the address behind it ([Route.CheckAddr]), and
// which headers the host may get ([Route.CheckHeaders]). Package callback does so for each call.
package route

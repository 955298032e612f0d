// Package route holds the configuration of each key prefix, called a route, and finds the route of a key. The longest matching prefix
// wins.
//
//	key  app:module:type:id
//	     [Table.Match] looks for a route of app:module:type, then app:module, then app
//
// A route also has the rules for a notice's own url, which producers choose: [Route.CheckTarget] for the url, [Route.CheckAddr] for the
// address behind it, and [Route.CheckHeaders] for the headers that a host may get. Package callback applies them at each call.
package route

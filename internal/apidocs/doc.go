// Package apidocs renders an OpenAPI document as one HTML page for people, which the API serves at GET /docs.
//
// [New] renders the page once; the API calls it at the first request. The page needs no script and loads only its style
// sheet. Links can point to a call or a type, for example /docs#schedule or /docs#type-notice.
//
// The package is apart from package api: it reads the OpenAPI document, and knows no call of it.
package apidocs

//go:generate go tool -modfile=../../tools/go.mod templ generate

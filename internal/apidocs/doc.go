// Package apidocs renders an OpenAPI document as one HTML page for people, at GET /docs.
//
// The page is rendered at the first request. It needs no script and loads only its style sheet. Anchors lead to a call
// or a type: /docs#schedule, /docs#type-notice.
package apidocs

//go:generate go tool -modfile=../../tools/go.mod templ generate

// Package apidocs renders an OpenAPI document as one page for people: GET /docs.
//
// The page is made once, at start, from the document that the service serves, so that
// both describe the same calls. It needs no script and loads nothing from elsewhere: its
// style sheet is the only other file. An address of the page leads to a call or a type:
// /docs#schedule, /docs#type-notice.
package apidocs

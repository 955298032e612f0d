// Package ui is the dashboard: pages under /ui/ for operators, for support and
// for merchants, rendered on the server and readable and operable without
// JavaScript.
//
// It speaks to the same [api.Engine] as the API does and never to Redis by
// itself. A page learns who looks at it, a [Visitor], and what he may; nothing
// outside a visitor's scope is counted, drawn or linked to.
//
// # What a page may contain
//
// Whatever stands in a notice comes from somebody else: keys, bodies, headers,
// answers of receivers, names of hosts. It is text everywhere, escaped by
// html/template; a notice's url is never a link. The Content-Security-Policy
// allows scripts and styles from this service's own files only, nothing inline,
// no request to another host and no frame.
package ui

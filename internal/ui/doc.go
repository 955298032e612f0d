// Package ui serves the dashboard: pages under /ui/ for operators, support staff and merchants. The server renders
// them, in English or Chinese. They work without JavaScript.
//
// The pages use the same [api.Engine] as the API and never access Redis directly. Each request for data has a [Visitor]
// with a role and a scope. The scope is the prefix of the keys that the visitor may see. A portal link, which is made
// for one merchant, limits it to the merchant's notices. Pages neither show nor count notices outside the scope.
//
// # Texts
//
// The texts of pages are messages, which the file messages.txt translates. Handlers return messages without choosing a
// language, with the function say. Templates render messages in the language of the context.
//
// # Templates
//
// The program templ generates Go code from the .templ files. Each page is a template named …Content; the template
// document adds the header and the frame of all pages. Each live block, a part of a page that is updated while the page
// is open, is a template too. Templates with many callers have the directive go:noinline, which keeps the program
// small.
//
// # Untrusted content
//
// Keys, bodies, headers, responses and host names come from other parties. templ escapes them everywhere, and the url
// of a notice is never shown as a link. The Content-Security-Policy allows only scripts and styles from the files of
// this service. It allows nothing inline, no request to another host and no frame.
package ui

//go:generate go tool -modfile=../../tools/go.mod templ generate

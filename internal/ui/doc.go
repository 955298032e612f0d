// Package ui serves the dashboard: pages under /ui/ for operators, support staff and merchants. The server renders
// them, in English or Chinese. They work without JavaScript.
//
// The pages use the same [api.Engine] as the API and never access Redis directly. Each request has a [Visitor] with a
// role, and a scope: the prefix of the keys that it may see. Pages neither show nor count anything outside the scope.
//
// # Texts
//
// Every text of a page is a message in messages.txt, with its translation. Handlers return messages without choosing a
// language (say). Templates render them in the language of the context: with @say, or with t for a message without
// arguments.
//
// # Templates
//
// The program templ generates Go code from the .templ files. Each page is a template named …Content, which the
// template document surrounds. Each live block, a part of a page that is updated while the page is open, is a template
// too. A template with many callers has the directive go:noinline, because the compiler would copy its code to each
// call.
//
// # Untrusted content
//
// Keys, bodies, headers, responses and host names come from other parties. templ escapes them everywhere, and the url
// of a notice is never shown as a link. The Content-Security-Policy allows only scripts and styles from the files of
// this service. It allows nothing inline, no request to another host and no frame.
package ui

//go:generate go tool -modfile=../../tools/go.mod templ generate

// Package ui is the dashboard: pages under /ui/ for operators, support and merchants. They are rendered on
// the server, in English or Chinese, and work without JavaScript.
//
// The pages use the same [api.Engine] as the API and never access Redis directly. Each request has a
// [Visitor] with a scope and a role. Pages count, draw and link nothing outside the scope.
//
// # Texts
//
// Every text of a page is a message of messages.txt, which has it in each language. Handlers return texts
// without a language (say). Templates render them (@say, or t for a message without arguments) in the
// language that the context holds.
//
// # Templates
//
// The templates are the .templ files, from which templ generates Go. Each page is a template named
// …Content, inside of document. Each live block is a template, too. A template with many callers has the
// directive go:noinline, because the compiler copies the code of a template to each call.
//
// # Content of notices
//
// Keys, bodies, headers, responses and host names come from other parties. templ escapes them
// everywhere, and a notice's url is never a link. The Content-Security-Policy allows scripts and styles
// from the files of this service only, nothing inline, no request to another host and no frame.
package ui

//go:generate go tool -modfile=../../tools/go.mod templ generate

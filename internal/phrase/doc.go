// Package phrase has the messages that people read, with their arguments, before they are put into a language. The dashboard
// translates them; the API and the command line write them in English. So all of them say the same words.
package phrase

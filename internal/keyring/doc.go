// Package keyring derives the keys that sign or encrypt texts, such as cursors of listings, sessions and links. Every
// instance accepts the texts of all instances.
//
// The keys are derived from the service's key. That is 32 random bytes in Redis (notifier:key, created at the first
// start) or, if others can read that Redis, NOTIFIER_KEY. Each purpose has its own key, so a text made for one purpose
// is invalid for another.
//
// The service's key is read for each use, because Redis may have been emptied or restored. Texts made with an earlier
// key are then invalid: users sign in again, and listings start again.
package keyring

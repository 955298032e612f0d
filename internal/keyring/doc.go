// Package keyring derives the keys with which one instance signs or encrypts texts that every other instance accepts: cursors of
// listings, sessions and links.
//
// All are derived from the service's key: 32 random bytes in Redis (notifier:key, created at the first start), or NOTIFIER_KEY where
// others can read that Redis. Each purpose has a separate key, so a text made for one purpose is invalid for another. The service's key
// is never used itself.
//
// The key is read for each use, so that all instances agree after Redis was emptied or restored. Texts made with an earlier key are then
// invalid: users sign in again, and listings start again.
package keyring

// Package keyring holds the service's own key, from which every key is derived
// that makes what one instance gave out good at another.
//
// The key is 32 random bytes, in Redis (notifier:key, made at the first start)
// or in NOTIFIER_KEY where others read that Redis. It is never used itself: each
// purpose has a key of its own, so that nothing made for one is taken for
// another. It is asked for each time, so that all instances use the one that is
// there, though Redis was emptied or restored meanwhile; whoever has something
// made with the one before begins again.
package keyring

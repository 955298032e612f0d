// Package keyring derives the secret keys with which the service signs or encrypts sessions, links and page cursors.
// All instances derive the same keys, so each accepts the texts of the others. A text made for one purpose, such as
// links, is invalid for another.
//
// The keys are derived from one key of 32 bytes, created in Redis at the first start (notifier:key). If others can read
// that Redis, set NOTIFIER_KEY instead.
//
// The key in Redis is read for each use, because Redis may have been emptied or restored. After a change of the key,
// users must sign in again, and old links and cursors are invalid. In a cluster, the last known key is used while its
// node does not answer.
package keyring

// Package coalesce combines concurrent calls into batches. A [Batcher] collects items, and its senders pass them in
// batches to a function.
//
// # When a batch is sent
//
// A sender is a goroutine that sends batches. If no sender runs, an added item is sent at once and alone. Items that
// are added while a sender runs are collected, and sent together when the sender is free. So batching adds no delay
// under low load, and batches grow with the load.
//
// MaxSenders is the maximum number of senders. Another sender starts only when MinExtra items are waiting. A small
// MinExtra makes many small batches. A large MinExtra leaves the receiver idle while a batch is in transit.
//
// Interval is the minimum time between two batches of fewer than MinExtra items. It makes fewer and larger batches, for
// callers that do not wait for the result. The first item after a pause is still sent at once.
//
// # Guarantees
//
// Every added item is sent once. The batches of one sender keep the order of Add. Batches of several senders may
// overtake each other. A Batcher does not limit the number of waiting items: callers can, with Len.
//
// # Failures
//
// A Batcher does not see failures. The send function must handle them before it returns: it retries, or reports the
// result to the callers of all items. If a call fails after it was sent, its items may still have taken effect, because
// only the reply may be lost. A send function that does not return blocks its sender.
//
// # Lifetime
//
// A Batcher needs no Close. It has no goroutine while nothing is sent: Add, or the end of the Interval, starts a
// sender, and the sender ends when no item is left. Wait returns when all senders have ended. Callers must not add
// items after the last Wait. A [Group] has one Batcher for each destination.
package coalesce

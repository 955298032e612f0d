// Package coalesce combines concurrent calls into batches, for example to send many writes to Redis in one round trip.
// A [Batcher] collects items and passes them in batches to a function. A [Group] has one Batcher for each destination.
//
// # When a batch is sent
//
// A sender is a goroutine that sends batches. If no sender runs, an added item is sent at once. Items that are added
// while a sender runs are sent together when the sender is free. So batching adds no delay under low load, and batches
// grow with the load.
//
// Three of the [Options] change this:
//   - MaxSenders is the maximum number of senders.
//   - MinExtra is the number of waiting items at which another sender starts while one is running.
//   - Interval is the minimum time between two batches of fewer than MinExtra items. It makes fewer and larger batches,
//     for callers that do not wait for the result. The first item after a pause is still sent at once.
//
// # Guarantees
//
// Every added item is sent once. The batches of one sender keep the order of Add. Batches of several senders may
// overtake each other. The number of waiting items is not limited: callers can limit it, with Len.
//
// # Failures
//
// The function that receives a batch returns no error. It must itself retry, or report the result to the callers of all
// items. Until it returns, its sender sends nothing else.
//
// # Lifetime
//
// A Batcher needs no Close, and has no goroutine while nothing is sent. [Batcher.Wait] returns when all items have been
// sent and all senders have ended. Callers must not add items after the last Wait.
package coalesce

// Package coalesce combines calls that happen at the same time into batches.
//
// # When a batch is sent
//
// A sender is a goroutine that sends batches. An item that is added while no sender runs is sent at
// once and alone. Items that are added while a sender runs are collected, and sent together when
// the sender is free. So batching adds no delay under low load, and batches grow with the load.
//
// MinExtra items must be waiting before another sender starts, up to MaxSenders. A small MinExtra
// makes many small batches. A large MinExtra leaves the receiver idle while a batch is in transit.
//
// An Interval makes fewer and larger batches, for callers that do not wait for the result. It is
// the shortest time between two batches of fewer than MinExtra items. The first item after a pause
// is still sent at once.
//
// # Guarantees
//
// Every added item is sent once. The batches of one sender keep the order of Add; batches of
// several senders may overtake each other. A Batcher does not limit the number of waiting items:
// callers do, with Len.
//
// # Failures
//
// A Batcher does not see failures. If a call fails after it was sent, its items may have taken
// effect, because only the reply may be lost. So the send function must retry the call, or report
// the result to each item's caller, before it returns. A send function that does not return
// occupies its sender.
//
// # Lifetime
//
// A Batcher needs no Close, and has no goroutine while nothing is sent. Add, or the end of the
// Interval, starts a sender, which ends when no item is left. Wait returns when all senders have
// ended. Callers must not add items after the last Wait. A Group has one Batcher per destination.
package coalesce

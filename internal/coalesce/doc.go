// Package coalesce gathers calls that happen at the same time into one.
//
// # When a batch leaves
//
// An item that finds no sender at work leaves at once and alone. Only while a
// sender is at work do items gather, and then they leave together as soon as it
// is free. So batching adds no delay when little is to do, and batches grow with
// the load.
//
// Where nobody waits for what is sent, an Interval makes fewer and larger batches:
// of what comes so soon after the last batch left, up to MinExtra items gather
// until that long has gone by. What comes alone still leaves at once.
//
// Further senders, up to MaxSenders, begin while others are at work, when so
// many items wait that a batch of them is worth a call of its own: MinExtra. A
// small MinExtra makes many small batches, a large one leaves the other end idle
// while a batch is on its way.
//
// # Life
//
// A Batcher has no goroutine while nothing is sent, and needs no end: a sender is
// started by Add or when the Interval is over, and ends when nothing is left to
// send. Wait returns when all have ended. Whoever calls Add sees to it that nothing
// is added after the Wait that is to be the last. A Group keeps a Batcher for each
// destination.
//
// Nothing bounds how many items wait but the callers themselves: Len says how
// many there are.
//
// # Failures
//
// A Batcher knows nothing of them. When a call fails after it was sent, it is
// unknown which items of its batch took effect: the answer may be all that was
// lost. Only the send function can know what may be sent again, so it repeats the
// call or tells each item's caller what came of it before it returns. It must
// return: until then it holds one of the senders.
package coalesce

// Package pace decides when something is done: at a time, again after a failure, or together with others. It imports
// no other package of the service.
//
// # Alarms
//
// An [Alarm] waits for a point in time, on Linux with a precision of about 50 µs. Go's timers have a precision of only a
// millisecond. So on Linux an Alarm made by [NewAlarm] uses a timerfd, a timer of the kernel, and its receiver is awake
// before the time. On other systems it uses a time.Timer, as [NewTimer] and [Wait] do on all systems.
//
// # Repetitions
//
// A [Loop] repeats an operation that fails, with growing delays, and logs the first failure and the recovery. [Loops]
// share one warning.
//
// # Batches
//
// A [Batcher] combines concurrent calls, for example to send many writes to Redis in one round trip. It collects items and
// passes them in batches to a function. [Batchers] have one Batcher for each destination.
//
// A sender is a goroutine that sends batches. If no sender runs, an added item is sent at once. Items that are added
// while a sender runs are sent together when the sender is free. So batching adds no delay under low load, and batches
// grow with the load.
//
// Three of the [BatcherOptions] change this:
//   - MaxSenders is the maximum number of senders.
//   - MinExtra is the number of waiting items at which another sender starts while one is running.
//   - Interval is the minimum time between two batches of fewer than MinExtra items. It makes fewer and larger batches,
//     for callers that do not wait for the result. The first item after a pause is still sent at once.
//
// Every added item is sent once. The batches of one sender keep the order of Add. Batches of several senders may
// overtake each other. The number of waiting items is not limited: callers can limit it, with Len.
//
// The function that receives a batch returns no error. It must itself retry, or report the result to the callers of all
// items. Until it returns, its sender sends nothing else.
//
// A Batcher needs no Close, and has no goroutine while nothing is sent. [Batcher.Wait] returns when all items have been
// sent and all senders have ended. Callers must not add items after the last Wait.
package pace

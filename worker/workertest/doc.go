// Package workertest tests handlers in virtual time: a day of retries takes a second. [Run] opens a bubble of
// testing/synctest with a worker on an emulated Redis:
//
//	func TestOrderIsClosedOnce(t *testing.T) {
//		workertest.Run(t, func(t *testing.T, w *workertest.Worker) {
//			shop := newShop(w.Worker) // registers its handlers
//			shop.Order("4711")        // schedules shop:orders:close:4711 in 30 minutes
//			w.Advance(time.Hour)
//			if !shop.Closed("4711") {
//				t.Error("the order is open after an hour")
//			}
//		})
//	}
//
// # Time
//
// [Worker.Advance] lets the clock of Redis leap from one due time to the next, and waits for the handlers in between. The
// function time.Now does not follow these leaps, only what sleeps in the bubble take; [Worker.Now] is the clock by which
// notices are due. So use Request.Delay, or a Due from Worker.Now.
//
// # Limits
//
// A bubble waits until its goroutines are blocked in it. A goroutine that waits for a socket never counts as blocked: a
// handler that calls a TCP server or a database stops Advance, which then ends the test binary after 10 seconds. Replace
// such parts by fakes.
package workertest

package route

// Order is how a route delivers the notices of a sequence, that is, with one order key.
type Order string

// The orders of a route. Under OrderSkip a dead letter leaves its sequence, under OrderBlock it holds back
// its successors.
const (
	OrderNone  Order = ""
	OrderSkip  Order = "skip"
	OrderBlock Order = "block"
)

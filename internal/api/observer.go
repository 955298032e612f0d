package api

import "time"

// Observer counts calls. Its methods are called concurrently and must not block.
type Observer interface {
	// Call is called once for each answered call. client is empty if the request has no token of a
	// client, or the operation is public or unknown. operation is empty if the path or the method is
	// unknown. took is the time from the end of the request's headers to the end of the response.
	Call(client, operation string, status int, took time.Duration)
	// BytesInFlight is called when the bytes of request bodies in flight change, with the
	// difference.
	BytesInFlight(delta int64)
}

type unobserved struct{}

func (unobserved) Call(string, string, int, time.Duration) {}
func (unobserved) BytesInFlight(int64)                     {}

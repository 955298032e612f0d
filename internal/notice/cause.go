package notice

import "strconv"

// Cause is why a notice is dead.
type Cause struct {
	Reason Reason
	// Status is the HTTP status of the last attempt if Reason is a judgement on a response; 0 otherwise.
	Status int
}

// String returns the reason, and the status if there is one: "status_5xx 503".
func (c Cause) String() string {
	if c.Status == 0 {
		return string(c.Reason)
	}
	return string(c.Reason) + " " + strconv.Itoa(c.Status)
}

// Cause returns why a dead notice is dead.
func (n *Notice) Cause() Cause {
	c := Cause{Reason: n.Reason}
	if last := len(n.Attempts) - 1; last >= 0 && n.Attempts[last].Reason == n.Reason {
		if status := n.Attempts[last].Status; statusesOf(n.Reason).has(status) {
			c.Status = status
		}
	}

	return c
}

// statuses are the possible HTTP statuses of a reason. Their codes are consecutive.
type statuses struct {
	reason      Reason
	first, last int
	code        int // of first
}

func (s *statuses) has(status int) bool { return s != nil && s.first <= status && status <= s.last }

// Redis stores codes of causes: see package store. So a code keeps its meaning: reasons are appended, and no range moves.
var (
	codedReasons = [...]Reason{"",
		ReasonDNS, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonReset, ReasonProtocol, ReasonStatus4xx, ReasonStatus5xx,
		ReasonStatus, ReasonAckMismatch, ReasonRedirect, ReasonTooLarge, ReasonBlocked, ReasonInvalid, ReasonGone,
		ReasonAborted, ReasonPanic, ReasonInterrupted, ReasonExhausted, ReasonRejected, ReasonUnreported, ReasonQueue,
		ReasonUnreadable, ReasonMissing, ReasonToken, ReasonDecode, ReasonExpired, ReasonForgotten,
	}
	codedStatuses = [...]statuses{
		{ReasonStatus4xx, 400, 499, 128},
		{ReasonStatus5xx, 500, 599, 228},
		{ReasonRedirect, 300, 399, 328},
		{ReasonAckMismatch, 100, 599, 428},
		{ReasonStatus, 100, 599, 928},
	}
)

func statusesOf(r Reason) *statuses {
	for i := range codedStatuses {
		if codedStatuses[i].reason == r {
			return &codedStatuses[i]
		}
	}

	return nil
}

// MaxCauseCode is the largest code of a cause.
const MaxCauseCode = 2047

// Code returns the number of a cause, from 1 to [MaxCauseCode]; 0 = it has none.
func (c Cause) Code() int {
	if s := statusesOf(c.Reason); s.has(c.Status) {
		return s.code + c.Status - s.first
	}

	for i, r := range codedReasons {
		if r == c.Reason {
			return i
		}
	}

	return 0
}

// CauseOf is the inverse of [Cause.Code]. An unknown code is the zero Cause.
func CauseOf(code int) Cause {
	if code >= 0 && code < len(codedReasons) {
		return Cause{Reason: codedReasons[code]}
	}

	for _, s := range codedStatuses {
		if status := s.first + code - s.code; s.has(status) {
			return Cause{s.reason, status}
		}
	}

	return Cause{}
}

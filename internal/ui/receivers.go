package ui

import (
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/receivers"
)

// lastAnswer returns the last response of a receiver: "HTTP 500, 38 in a row".
func lastAnswer(r *receivers.Health) text { return text(problems.LastAnswer(r)) }

// answerText returns a response: the HTTP status if it is the failure, else the reason.
func answerText(status int, reason notice.Reason) text {
	return text(problems.AnswerText(notice.Cause{Reason: reason, Status: status}))
}

// calm returns the text of a page without problems. It claims only what was checked.
func (p *Pages) calm(b *problems.Board, v Visitor) text {
	switch {
	case !p.sampler.Healthy():
		return say("No notice is late, and no route is paused.")
	case len(b.Paused(v.Meets)) > 0: // the page does not show pauses by others
		return say("No notice is late, no receiver's last attempt failed, and no route is paused.")
	}
	return say("No notice is late, no receiver's last attempt failed, and no route or receiver is paused.")
}

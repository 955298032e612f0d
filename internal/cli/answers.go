package cli

import (
	"net/http"
	"strconv"
	"strings"
)

// reply is a sample receiver's reaction to one attempt.
type reply struct {
	status int
	// hangs means that no response is sent, until the sender's timeout ends the attempt. resets means that the
	// connection is closed without a response.
	hangs, resets bool
}

func (r reply) accepts() bool { return r.status >= 200 && r.status < 300 }

// String returns the reply in the form of --then.
func (r reply) String() string {
	switch {
	case r.hangs:
		return "timeout"
	case r.resets:
		return "reset"
	}
	return strconv.Itoa(r.status)
}

// answers are the replies to a notice's attempts, in order. The last one is repeated.
type answers []reply

// maxAnswers is the maximum length of a script.
const maxAnswers = 10_000

// of returns the reply to the nth attempt, counted from 1.
func (a answers) of(n int) reply { return a[min(n, len(a))-1] }

// parseAnswers reads a script such as 500x3,timeout,200.
func parseAnswers(script string) (answers, error) {
	var list answers
	for step := range strings.SplitSeq(script, ",") {
		what, count, repeated := strings.Cut(strings.TrimSpace(step), "x")
		n := 1
		if repeated {
			var err error
			if n, err = strconv.Atoi(count); err != nil || n < 1 || n > maxAnswers {
				return nil, usage("--then %q: want a number after the x, as in 500x3", step)
			}
		}

		r, ok := parseReply(what)
		if !ok {
			return nil, usage("--then %q: want a status from 200 to 599, timeout or reset", step)
		}
		if len(list)+n > maxAnswers {
			return nil, usage("--then: want at most %d answers", maxAnswers)
		}

		for range n {
			list = append(list, r)
		}
	}

	return list, nil
}

func parseReply(s string) (reply, bool) {
	switch s {
	case "timeout":
		return reply{hangs: true}, true
	case "reset":
		return reply{resets: true}, true
	}

	status, err := strconv.Atoi(s)
	return reply{status: status}, err == nil && status >= 200 && status <= 599
}

// refusals returns the script of --fail and --status.
func refusals(n, status int) answers {
	list := make(answers, 0, n+1)
	for range n {
		list = append(list, reply{status: status})
	}

	return append(list, reply{status: http.StatusOK})
}

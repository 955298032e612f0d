package notice

import "testing"

// TestCauseCodes checks that each cause of a dead letter has a code of its own, and keeps it: the codes are stored.
func TestCauseCodes(t *testing.T) {
	seen := map[int]Cause{}
	check := func(c Cause) {
		t.Helper()
		code := c.Code()
		if code < 0 || code > MaxCauseCode {
			t.Errorf("%+v: code %d, want at most %d", c, code, MaxCauseCode)
		}
		if other, ok := seen[code]; ok {
			t.Errorf("%+v and %+v: code %d", other, c, code)
		}
		if got := CauseOf(code); got != c {
			t.Errorf("code %d: got %+v, want %+v", code, got, c)
		}

		seen[code] = c
	}
	for _, r := range codedReasons {
		check(Cause{Reason: r})
	}

	for _, s := range codedStatuses {
		for status := s.first; status <= s.last; status++ {
			check(Cause{s.reason, status})
		}
	}

	for c, want := range map[Cause]int{{}: 0, {Reason: ReasonDNS}: 1, {Reason: ReasonToken}: 25, {ReasonStatus4xx, 400}: 128,
		{ReasonStatus5xx, 503}: 231, {ReasonRedirect, 302}: 330, {ReasonAckMismatch, 200}: 528, {ReasonStatus, 599}: 1427} {
		if got := c.Code(); got != want {
			t.Errorf("%+v: code %d, want %d as stored by earlier versions", c, got, want)
		}
	}

	for _, code := range []int{-1, 60, MaxCauseCode} {
		if got := CauseOf(code); got != (Cause{}) {
			t.Errorf("code %d: %+v, want none", code, got)
		}
	}
}

func TestCauseOfNotice(t *testing.T) {
	for _, c := range []struct {
		name     string
		reason   Reason
		attempts []Attempt
		want     Cause
	}{
		{"a status", ReasonStatus5xx, []Attempt{{Reason: ReasonStatus4xx, Status: 404}, {Reason: ReasonStatus5xx, Status: 502}},
			Cause{ReasonStatus5xx, 502}},
		{"an exchange without a response", ReasonTimeout, []Attempt{{Reason: ReasonTimeout}}, Cause{Reason: ReasonTimeout}},
		{"another reason than that of the last attempt", ReasonExhausted, []Attempt{{Reason: ReasonStatus5xx, Status: 500}},
			Cause{Reason: ReasonExhausted}},
		{"a status that the reason cannot have", ReasonStatus5xx, []Attempt{{Reason: ReasonStatus5xx, Status: 200}},
			Cause{Reason: ReasonStatus5xx}},
		{"no attempt", ReasonInvalid, nil, Cause{Reason: ReasonInvalid}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := (&Notice{Reason: c.reason, Attempts: c.attempts}).Cause(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

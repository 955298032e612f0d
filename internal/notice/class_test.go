package notice

import (
	"fmt"
	"testing"
)

func TestClassOfTheNextAttempt(t *testing.T) {
	for _, c := range []struct {
		n    Notice
		want Class
	}{
		{Notice{}, ClassFirst},
		{Notice{AttemptsMade: 2}, ClassRetry},
		{Notice{AttemptsMade: 2, Redriven: 2, Endings: 1}, ClassBulk},
		{Notice{Endings: 1}, ClassBulk}, // it expired before its first attempt, and was redriven
		{Notice{Replay: "rpl_1"}, ClassBulk},
		{Notice{Replay: "rpl_1", AttemptsMade: 3}, ClassBulk},
	} {
		if got := c.n.Class(); got != c.want {
			t.Errorf("%+v is of class %d, want %d", c.n, got, c.want)
		}
	}
}

// A redrive marks the record; it is of class bulk from its first claim on.
func TestRedrivenRecordIsBulk(t *testing.T) {
	n, err := Decode("app1:a:b:1", "app1", `{"due":5,"made":7,"text":"x","n":9,"reason":"exhausted","again":true}`)
	if err != nil || n.Class() != ClassBulk {
		t.Errorf("class %d, %v", n.Class(), err)
	}
}

func TestEachClassThatWaitsStarts(t *testing.T) {
	for _, c := range []struct {
		waits []Class
		want  string // of ten starts
	}{
		{[]Class{ClassFirst, ClassRetry, ClassBulk}, "[8 1 1]"},
		{[]Class{ClassFirst, ClassRetry}, "[9 1 0]"},
		{[]Class{ClassFirst, ClassBulk}, "[9 0 1]"},
		{[]Class{ClassRetry, ClassBulk}, "[0 9 1]"},
		{[]Class{ClassBulk}, "[0 0 10]"},
		{nil, "[10 0 0]"},
	} {
		var got [Classes]int
		for start := range 10 {
			got[Next(start, func(x Class) bool {
				for _, w := range c.waits {
					if w == x {
						return true
					}
				}
				return false
			})]++
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v wait: %v starts, want %s", c.waits, got, c.want)
		}
	}
}

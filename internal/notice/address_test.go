package notice

import "testing"

func TestPasswordMissing(t *testing.T) {
	for address, want := range map[string]struct{ shown, history bool }{
		"https://shop.example/x":          {false, false},
		"https://me:pass@shop.example/x":  {false, false},
		"https://me:@shop.example/x":      {false, false},
		"https://me:xxxxx@shop.example/x": {true, true},
		"https://me@shop.example/x":       {false, true},
		"://":                             {false, false},
		"":                                {false, false},
	} {
		if got := PasswordMissing(address, false); got != want.shown {
			t.Errorf("%q as the API shows it: %t", address, got)
		}
		if got := PasswordMissing(address, true); got != want.history {
			t.Errorf("%q as the history has it: %t", address, got)
		}
	}
}

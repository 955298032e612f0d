package notice

import (
	"errors"
	"strings"
	"testing"
)

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

func TestCanonicalURLEncodesWhatServersRefuse(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://h":                         "http://h",
		"http://h/p?d=2026-11-28 10:00":    "http://h/p?d=2026-11-28%2010:00",
		"http://h/?x=1 HTTP/1.1&y=":        "http://h/?x=1%20HTTP/1.1&y=",
		"http://h/a b?name=张三":             "http://h/a%20b?name=%E5%BC%A0%E4%B8%89",
		"http://h/a%2Fb|c":                 "http://h/a%2Fb%7Cc",
		"http://h/\"<>\\^`{|}?\"<>\\^`{|}": "http://h/%22%3C%3E%5C%5E%60%7B%7C%7D?%22%3C%3E%5C%5E%60%7B%7C%7D",
		"http://h//a/./B/../c;v=1?a+b;[c]": "http://h//a/./B/../c;v=1?a+b;[c]",
		"http://h/%41%e4?rate=100%&x=%zz":  "http://h/%41%e4?rate=100%25&x=%25zz",
		"http://h?%%41":                    "http://h?%25%41",
		"http://h/x#a b":                   "http://h/x#a%20b",
		"http://张.example/":                "http://张.example/",
		"http://u:p@h/é":                   "http://u:p@h/%C3%A9",
		"http://h/\xff":                    "http://h/%FF",
		"http://[::]:65535/":               "http://[::]:65535/",
	} {
		if got, err := CanonicalURL(address); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", address, got, err, want)
		}
	}
}

func TestCanonicalURLRefusesWithRemedy(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://h/x ":       "has white space before or after it; remove it",
		"\thttp://h/x":      "has white space before or after it; remove it",
		"http://h/x\u3000":  "has white space before or after it; remove it",
		"\ufeffhttp://h/x":  "has white space before or after it; remove it",
		"http://h:70000/":   "has the port 70000; want a number from 1 to 65535",
		"http://h:0/":       "has the port 0; want a number from 1 to 65535",
		"http://h:/":        "has a colon after the host but no port; remove the colon",
		"http://h/100%":     "write %25 for the character %",
		"http://h/a%2?b":    "write %25 for the character %",
		"http://h/a\nb":     "holds a control character; remove it",
		"http://h/?a\x7fb=": "holds a control character; remove it",
		"http://h/?" + strings.Repeat("张", 230): "is 2080 bytes long when percent-encoded, at most 2048 are allowed",
	} {
		if _, err := CanonicalURL(address); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v; want %q", address, err, want)
		}
	}
}

func TestDecodedRecordHasCanonicalURL(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", `,"n":1`} { // the fast path and the other
		n, err := Decode("a:b:c:1", "a", `{"due":1763740800000,"made":185903985000123,"url":"http://h/?n=张 x","text":"b"`+more+`}`)
		if err != nil || n.URL != "http://h/?n=%E5%BC%A0%20x" {
			t.Fatalf("%+v, %v", n, err)
		}
		if tail := string(n.AppendTail(nil)); !strings.HasPrefix(tail, `,"url":"http://h/?n=%E5%BC%A0%20x","text":"b"`) {
			t.Errorf("its record ends in %s", tail)
		}
		given := Content{URL: "http://h/?n=%E5%BC%A0 x", Body: []byte("b")}
		if err := given.Check(); err != nil || len(n.Diff(&given)) > 0 || !n.Tombstone().Same(&given) {
			t.Errorf("the same call differs in %v, %v", n.Diff(&given), err)
		}
	}
	bad, err := Decode("a:b:c:1", "a", `{"due":1763740800000,"made":185903985000123,"url":"http://h/100%"}`)
	if err != nil || bad.URL != "http://h/100%" {
		t.Errorf("an invalid url makes the record %+v, %v", bad, err)
	}
}

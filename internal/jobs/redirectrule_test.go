package jobs

import (
	"testing"

	"notifier/internal/notice"
)

func TestRuleMatchesAndBuilds(t *testing.T) {
	t.Parallel()
	const from, to = "https://shop.example/hooks", "https://new.example:8443/in"
	for _, c := range []struct {
		rule      Rule
		url, want string // "" = no match
	}{
		{Rule{From: from, To: to}, "https://shop.example/hooks", "https://new.example:8443/in"},
		{Rule{From: from, To: to}, "https://SHOP.example.:443/hooks/a%2Fb?q=1&r=%20#f", "https://new.example:8443/in/a%2Fb?q=1&r=%20#f"},
		{Rule{From: from, To: to}, "https://shop.example/hooks?", "https://new.example:8443/in?"},
		{Rule{From: from, To: to + "/"}, "https://shop.example/hooks/x", "https://new.example:8443/in/x"},
		{Rule{From: from, To: to + "/"}, "https://shop.example/hooks", "https://new.example:8443/in/"},
		{Rule{From: from + "/", To: to}, "https://shop.example/hooks/x", "https://new.example:8443/in/x"},
		{Rule{From: from, To: to}, "https://shop.example/hooksome", ""},
		{Rule{From: from, To: to}, "https://shop.example/", ""},
		{Rule{From: from, To: to}, "http://shop.example/hooks", ""},
		{Rule{From: from, To: to}, "https://shop.example:8443/hooks", ""},
		{Rule{From: from, To: to}, "https://a.shop.example/hooks", ""},
		{Rule{From: "https://shop.example", To: "https://new.example"}, "https://shop.example", "https://new.example"},
		{Rule{From: "https://shop.example", To: "https://new.example"}, "https://shop.example/a", "https://new.example/a"},
		{Rule{From: "https://shop.example/", To: "https://new.example/v2/"}, "https://shop.example/a", "https://new.example/v2/a"},
		{Rule{From: from, To: to}, "https://u:p@shop.example/hooks", "https://new.example:8443/in"},
		{Rule{From: from, To: to, KeepHeaders: true}, "https://u:p@shop.example/hooks", "https://u:p@new.example:8443/in"},
		{Rule{From: from, To: "https://shop.example/new"}, "https://u:p@shop.example/hooks/1", "https://u:p@shop.example/new/1"},
		{Rule{Host: "shop.example", To: "https://new.example"}, "http://shop.example:81/a?b", "https://new.example/a?b"},
		{Rule{Host: "shop.example:81", To: "https://new.example"}, "http://shop.example:81/a", "https://new.example/a"},
		{Rule{Host: "shop.example:80", To: "https://new.example"}, "http://shop.example/a", "https://new.example/a"},
		{Rule{Host: "shop.example:82", To: "https://new.example"}, "http://shop.example:81/a", ""},
		{Rule{Host: "other.example", From: from, To: to}, "https://shop.example/hooks", ""},
		{Rule{From: from, To: to, Prefix: "app1:b"}, "https://shop.example/hooks", ""},
		{Rule{From: from, To: to, Prefix: "app1:a"}, "https://shop.example/hooks", to},
		{Rule{From: from, To: to, Audience: "m1"}, "https://shop.example/hooks", to},
		{Rule{From: from, To: to, Audience: "m2"}, "https://shop.example/hooks", ""},
		{Rule{To: to}, "https://shop.example/hooks", ""},
		{Rule{From: from, To: to}, "", ""},
	} {
		n := &notice.Notice{Key: "app1:a:b:1", Content: notice.Content{URL: c.url, Audience: "m1"}}
		if got := c.rule.Matches(n); got != (c.want != "") {
			t.Errorf("%+v matches %s: %v", c.rule, c.url, got)
		} else if got && c.rule.Target(c.url) != c.want {
			t.Errorf("%+v: %s becomes %s, want %s", c.rule, c.url, c.rule.Target(c.url), c.want)
		}
	}
}

func TestBasesAreCheckedAndCompared(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "x", "ftp://a.example", "https://u@a.example/",
		"https://a.example/?a", "https://a.example/?", "https://a.example/#f"} {
		if CheckBase(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if !Same("https://A.example:443/x/", "https://a.example/x") || Same("https://a.example/x", "http://a.example/x") {
		t.Error("bases are compared wrong")
	}
}

package route

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"notifier/internal/sign"
)

func TestMatchPrefersTheLongestPrefix(t *testing.T) {
	tab, err := NewTable([]*Route{{Name: "a", Prefix: "app1"}, {Name: "b", Prefix: "app1:trans"}, {Name: "c", Prefix: "app1:trans:notice"}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"app1:x:y:1": "a", "app1:trans:y:1": "b", "app1:trans:notice:1": "c", "app12:trans:notice:1": "",
		"app1:transx:y:1": "a"} {
		got := ""
		if r := tab.Match(key); r != nil {
			got = r.Name
		}
		if got != want {
			t.Errorf("%s goes to %q, want %q", key, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { tab.Match("app1:trans:notice:1") }); n != 0 {
		t.Errorf("Match allocates %v times", n)
	}
}

func TestTableRejectsDuplicates(t *testing.T) {
	for want, rs := range map[string][]*Route{
		"prefix app1": {{Name: "a", Prefix: "app1"}, {Name: "b", Prefix: "app1"}},
		"named a":     {{Name: "a", Prefix: "app1"}, {Name: "a", Prefix: "app2"}},
		"segment":     {{Name: "a", Prefix: "app1:"}},
	} {
		if _, err := NewTable(rs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestParseAck(t *testing.T) {
	for _, s := range []string{"2xx", "status:200,204", "body:success", "json:code=SUCCESS", "json:data.code=0",
		"body:success|SUCCESS|ok", "json:errcode=0|1", "xml:return_code=SUCCESS", "xml:code=0|1"} {
		a, err := ParseAck(s)
		if err != nil || a.String() != s {
			t.Errorf("%q came back as %q, %v", s, a, err)
		}
	}
	for _, s := range []string{"", "3xx", "status:", "status:500", "status:abc", "body:", "body: ", "json:", "json:code", "json:=x",
		"json:a..b=x", "2xx:1",
		"json:code=\xbc", "json:\xff=x", "body:a||b", "body:|", "body:a|a", "json:a=b|", "xml:", "xml:a", "xml:=a", "xml:a=", "xml:a.b=c",
		"xml:a:b=c", "xml:a=\xff"} {
		if a, err := ParseAck(s); err == nil {
			t.Errorf("%q was read as %v", s, a)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for s, want := range map[string]Kind{"http://h/p": KindFixed, "https://h": KindFixed, "notice": KindNotice, "list:q": KindList,
		"stream:s:1": KindStream, "log": KindLog} {
		got, err := ParseTarget(s)
		if err != nil || got.Kind != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "list:", "stream:", "ftp://x", "http://", "h/p", "file:///etc/passwd"} {
		if got, err := ParseTarget(s); err == nil {
			t.Errorf("%q was read as %v", s, got)
		}
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	p, err := ParseProxy("http://user:hunter2@proxy.example:3128")
	if err != nil {
		t.Fatal(err)
	}
	r := Route{Secrets: []sign.Secret{sign.SecretOf([]byte("hunter2"))}, OAuth2: &OAuth2{ClientSecret: "hunter2"}, Proxy: p}
	j, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(j), `"Proxy":"http://proxy.example:3128"`) {
		t.Errorf("%s, %v", j, err)
	}
	for _, s := range []string{fmt.Sprintf("%v %+v %#v %s", r, r, r, r.Secrets[0]), fmt.Sprintf("%v %+v %#v", r.OAuth2, r.OAuth2, r.OAuth2),
		string(j)} {
		if strings.Contains(s, "hunter2") || strings.Contains(s, "104 117") || strings.Contains(s, "aHVudGVyMg") {
			t.Errorf("printed: %s", s)
		}
	}
}

func TestSlots(t *testing.T) {
	for _, c := range []struct {
		kind            Kind
		all, host, want int
	}{
		{KindFixed, 64, 16, 16}, {KindFixed, 64, 0, 64}, {KindFixed, 8, 16, 8}, {KindFixed, 0, 16, 16}, {KindNotice, 64, 16, 64},
		{KindList, 64, 16, 64},
	} {
		r := Route{Target: Target{Kind: c.kind}, Concurrency: c.all, HostConcurrency: c.host}
		if got := r.Slots(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestAcknowledgementOfPushAndLog(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		ack  Ack
		want string
	}{
		{KindFixed, Ack{Kind: Ack2xx}, "2xx"},
		{KindNotice, Ack{Kind: AckBody, Values: []string{"success"}}, "body:success"},
		{KindList, Ack{Kind: Ack2xx}, "push"},
		{KindStream, Ack{Kind: Ack2xx}, "push"},
		{KindStream, Ack{Kind: AckReport}, "report"},
		{KindLog, Ack{Kind: Ack2xx}, "log line"},
	} {
		r := &Route{Target: Target{Kind: c.kind}, Ack: c.ack}
		if got := r.Acknowledgement(); got != c.want {
			t.Errorf("%s with %s: %q, want %q", c.kind, c.ack, got, c.want)
		}
	}
}

package route

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var hostile = AlarmMessage{Event: AlarmDead, Route: "orders", Reason: "status_5xx", Count: 37,
	Since: time.Date(2026, 11, 29, 12, 0, 5, 0, time.UTC),
	Key:   "app1:orders:paid:4711", Receiver: "shop.example:443", Status: 500, Link: "https://notifier.example/ui/dead?route=orders",
	Answer: "<!channel> [pay](https://evil.example) <at id=all></at> @all **x** &amp; \r\nnotifier: recovered\u202e \ue000" +
		strings.Repeat("好", 500)}

func robot(f AlarmFormat) *Robot { return NewRobot(f, nil, "") }

// The bodies have the form of the samples in the documentation of each receiver.
func TestBodyHasDocumentedForm(t *testing.T) {
	m := AlarmMessage{Event: AlarmDead, Route: "orders", Reason: "gone", Count: 2, Key: "app1:orders:paid:1", Link: "https://n.example/ui/"}
	for f, want := range map[AlarmFormat]string{
		AlarmJSON: `{"event":"dead","route":"orders","reason":"gone","count":2,"key":"app1:orders:paid:1","link":"https://n.example/ui/"}`,
		DingTalk: `{"msgtype":"text","text":{"content":"notifier：路由 orders 的死信，原因 gone：2 条\n首个示例：app1:orders:paid:1\n` +
			`https://n.example/ui/"}}`,
		WeCom: `{"msgtype":"text","text":{"content":"notifier：路由 orders 的死信，原因 gone：2 条\n首个示例：app1:orders:paid:1\n` +
			`https://n.example/ui/"}}`,
		Feishu: `{"content":{"post":{"zh_cn":{"content":[[{"tag":"text","text":"首个示例：app1:orders:paid:1"}],` +
			`[{"href":"https://n.example/ui/","tag":"a","text":"打开页面"}]],"title":"notifier：路由 orders 的死信，原因 gone：2 条"}}},"msg_type":"post"}`,
		Slack: `{"text":"notifier: dead letters of route orders, reason gone: 2\nFirst example: app1:orders:paid:1\n` +
			`\u003chttps://n.example/ui/|Open the page\u003e"}`,
		Teams: `{"attachments":[{"content":{"$schema":"http://adaptivecards.io/schemas/adaptive-card.json",` +
			`"actions":[{"title":"Open the page","type":"Action.OpenUrl","url":"https://n.example/ui/"}],` +
			`"body":[{"inlines":[{"text":"notifier: dead letters of route orders, reason gone: 2","type":"TextRun","weight":"Bolder"}],` +
			`"type":"RichTextBlock"},{"inlines":[{"text":"First example: app1:orders:paid:1","type":"TextRun"}],"type":"RichTextBlock"}],` +
			`"type":"AdaptiveCard","version":"1.2"},"contentType":"application/vnd.microsoft.card.adaptive","contentUrl":null}],"type":"message"}`,
	} {
		if got := string(robot(f).Body(&m)); got != want {
			t.Errorf("%s:\n%s, want\n%s", f, got, want)
		}
	}
}

// A receiver's answer adds no line, mention, link or markup, and the message stays below the receivers' limits.
func TestReceiversTextIsNoMarkup(t *testing.T) {
	for _, name := range AlarmFormats[1:] {
		body := robot(AlarmFormat(name)).Body(&hostile)
		var v map[string]any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var texts []string
		var walk func(v any)
		walk = func(v any) {
			switch x := v.(type) {
			case string:
				texts = append(texts, x)
			case []any:
				for _, e := range x {
					walk(e)
				}
			case map[string]any:
				for _, e := range x {
					walk(e)
				}
			}
		}
		walk(v)
		all := strings.Join(texts, "\n")
		if strings.Contains(all, "\nnotifier: recovered") || strings.Contains(all, "\u202e") || !strings.Contains(all, "**x**") ||
			!strings.Contains(all, "recovered \ue000") { // a private character is visible
			t.Errorf("%s: %q", name, all)
		}
		if name == "slack" && (strings.Contains(all, "<!channel>") || !strings.Contains(all, "&lt;!channel&gt;") ||
			!strings.Contains(all, "&amp;amp;")) {
			t.Errorf("slack: %q is not escaped", all)
		}
		if strings.Contains(string(body), `"TextBlock"`) || strings.Contains(string(body), "markdown") || strings.Contains(string(body), "lark_md") {
			t.Errorf("%s: %s reads markup", name, body)
		}
		if !utf8.ValidString(all) || len(all) > 2600 {
			t.Errorf("%s: %d bytes", name, len(all))
		}
	}
}

func TestLongTextIsCutBelowLimit(t *testing.T) {
	m := AlarmMessage{Event: AlarmLost, Text: strings.Repeat("数据", 2000)}
	var v struct{ Text struct{ Content string } }
	if err := json.Unmarshal(robot(WeCom).Body(&m), &v); err != nil || len(v.Text.Content) > 2048 || !utf8.ValidString(v.Text.Content) {
		t.Errorf("%d bytes, %v", len(v.Text.Content), err)
	}
}

func TestLarkIsEnglish(t *testing.T) {
	for host, chinese := range map[string]bool{"open.feishu.cn": true, "open.larksuite.com": false} {
		if r := NewRobot(Feishu, &url.URL{Scheme: "https", Host: host}, ""); r.Chinese != chinese {
			t.Errorf("%s: Chinese is %t", host, r.Chinese)
		}
	}
}

// The signatures are those of the documented Python samples.
func TestSignatureIsThatOfSamples(t *testing.T) {
	query, body := NewRobot(DingTalk, nil, "this is secret").Sign([]byte("{}"), time.UnixMilli(1577262236757))
	if want := "timestamp=1577262236757&sign=hmPWwU%2B7lVdm3ZZz0r9tSfx0L4Q26jWOZr9%2BGs6EZQM%3D"; query != want || string(body) != "{}" {
		t.Errorf("%s %s, want %s", query, body, want)
	}
	query, body = NewRobot(Feishu, nil, "demo").Sign([]byte(`{"msg_type":"post"}`), time.Unix(1599360473, 0))
	if want := `{"timestamp":"1599360473","sign":"l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=","msg_type":"post"}`; query != "" || string(body) != want {
		t.Errorf("%s %s, want %s", query, body, want)
	}
	if r := NewRobot(DingTalk, nil, "a-secret"); strings.Contains(r.String()+r.GoString(), "a-secret") {
		t.Error("the key is shown")
	}
}

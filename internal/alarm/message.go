package alarm

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"notifier/internal/notice"
)

// Event is the kind of a message.
type Event string

// The events.
const (
	Dead      Event = "dead"      // notices of a route have become dead letters for one reason
	DeadEnded Event = "dead_over" // and no longer do
	Down      Event = "down"      // receivers of a route fail
	DownEnded Event = "down_over" // and no longer do
	Test      Event = "test"

	Paused      Event = "paused"      // receivers of a route are paused by rule
	PausedEnded Event = "paused_over" // and no longer are

	// Of the service itself.
	Lost        Event = "data_lost"
	Full        Event = "redis_full"
	FullEnded   Event = "redis_full_over"
	Unavailable Event = "redis_unavailable"
	Available   Event = "redis_unavailable_over"
)

// Message is one message to a team. Empty members are left out.
type Message struct {
	Event    Event     `json:"event"`
	Instance string    `json:"instance,omitempty"`
	Route    string    `json:"route,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Count    int64     `json:"count,omitempty"` // of dead letters, or of receivers
	Since    time.Time `json:"since,omitzero"`
	// Of the first one.
	Key      string `json:"key,omitempty"`
	Receiver string `json:"receiver,omitempty"`
	Status   int    `json:"status,omitempty"`
	Answer   string `json:"answer,omitempty"` // of the receiver
	Text     string `json:"text,omitempty"`   // what has happened to the service
	Link     string `json:"link,omitempty"`
}

const (
	// maxAnswer is the maximum length of a receiver's answer in a message, in characters.
	maxAnswer = 120
	// maxText is the maximum length of a message's text in bytes. WeCom takes 2,048.
	maxText = 2000
)

// Body returns the message as the body of a request, of the type application/json.
func (r *Robot) Body(m *Message) []byte {
	if r == nil || r.Format == JSON {
		return encode(m)
	}

	lines := r.lines(m)
	open := r.say("Open the page", "打开页面")
	switch r.Format {
	case Feishu: // the element text is shown as it is
		var rows [][]map[string]string
		for _, line := range lines[1:] {
			rows = append(rows, []map[string]string{{"tag": "text", "text": line}})
		}

		if m.Link != "" {
			rows = append(rows, []map[string]string{{"tag": "a", "text": open, "href": m.Link}})
		}

		lang := r.say("en_us", "zh_cn")
		return encode(map[string]any{"msg_type": "post", "content": map[string]any{"post": map[string]any{
			lang: map[string]any{"title": lines[0], "content": append([][]map[string]string{}, rows...)}}}})
	case Slack:
		text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(cut(lines))
		if m.Link != "" {
			text += "\n<" + m.Link + "|" + open + ">"
		}

		return encode(map[string]any{"text": text})
	case Teams:
		return encode(card(lines, open, m.Link))
	}

	if m.Link != "" { // DingTalk and WeCom make it a link
		lines = append(lines, m.Link)
	}

	return encode(map[string]any{"msgtype": "text", "text": map[string]any{"content": cut(lines)}})
}

// card returns an adaptive card in the envelope that the Workflows app takes. Teams reads Markdown in a text block, but not
// in the runs of a rich text block.
func card(lines []string, open, link string) any {
	run := func(text string, bold bool) map[string]any {
		r := map[string]any{"type": "TextRun", "text": text}
		if bold {
			r["weight"] = "Bolder"
		}

		return map[string]any{"type": "RichTextBlock", "inlines": []any{r}}
	}
	var blocks []any
	for i, line := range lines {
		blocks = append(blocks, run(line, i == 0))
	}

	content := map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.2",
		"body": blocks}
	if link != "" {
		content["actions"] = []any{map[string]any{"type": "Action.OpenUrl", "title": open, "url": link}}
	}

	return map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": content}}}
}

// say returns a text in the language of the robot.
func (r *Robot) say(english, chinese string) string {
	if r.Chinese {
		return chinese
	}
	return english
}

// titles are the first lines of messages, in English and Chinese. Each contains the word notifier, for robots that take
// only messages with a keyword.
var titles = map[Event][2]string{
	Dead:        {"notifier: dead letters of route %[1]s, reason %[3]s: %[2]d", "notifier：路由 %[1]s 的死信，原因 %[3]s：%[2]d 条"},
	DeadEnded:   {"notifier: recovered: no new dead letters of route %[1]s, reason %[3]s", "notifier：已恢复：路由 %[1]s 不再产生死信，原因 %[3]s"},
	Down:        {"notifier: failing receivers of route %[1]s: %[2]d", "notifier：路由 %[1]s 持续失败的接收方：%[2]d 个"},
	DownEnded:   {"notifier: recovered: the receivers of route %[1]s answer again", "notifier：已恢复：路由 %[1]s 的接收方恢复应答"},
	Paused:      {"notifier: receivers of route %[1]s paused by rule %[3]s: %[2]d", "notifier：路由 %[1]s 依规则 %[3]s 暂停的接收方：%[2]d 个"},
	PausedEnded: {"notifier: no receiver of route %[1]s is paused by rule any more", "notifier：路由 %[1]s 不再有依规则暂停的接收方"},
	Test:        {"notifier: test message", "notifier：测试消息"},
	Lost:        {"notifier: data lost in Redis", "notifier：Redis 丢失数据"},
	Full:        {"notifier: Redis is full", "notifier：Redis 已满"},
	FullEnded:   {"notifier: recovered: Redis is no longer full", "notifier：已恢复：Redis 内存已有余量"},
	Unavailable: {"notifier: Redis is unavailable", "notifier：Redis 不可用"},
	Available:   {"notifier: recovered: Redis is available again", "notifier：已恢复：Redis 恢复可用"},
}

// lines returns the text of the message. The first line is its title.
func (r *Robot) lines(m *Message) []string {
	title := titles[m.Event]
	text := r.say(title[0], title[1])
	if strings.Contains(text, "%") {
		text = fmt.Sprintf(text, clean(m.Route), m.Count, clean(m.Reason))
	}

	out := []string{text}
	add := func(label, chinese, value string) {
		if value != "" {
			out = append(out, r.say(label+": ", chinese+"：")+value)
		}
	}
	if !m.Since.IsZero() {
		add("Since", "开始时间", m.Since.UTC().Format(time.DateTime)+" UTC")
	}

	if m.Event == DeadEnded && m.Count > 0 {
		add("Dead letters", "死信数", strconv.FormatInt(m.Count, 10))
	}

	add("First example", "首个示例", clean(m.Key))
	add("Receiver", "接收方", clean(m.Receiver))
	if m.Status > 0 {
		add("Status", "状态码", strconv.Itoa(m.Status))
	}

	add("Answer", "应答", short(clean(m.Answer)))
	add("Instance", "实例", clean(m.Instance))
	if m.Text != "" {
		out = append(out, clean(m.Text))
	}

	return out
}

// clean puts a text on one line: characters that end a line, control the terminal or change the direction become spaces.
func clean(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || notice.Invisible(r) }), " ")
}

// short cuts an answer.
func short(text string) string {
	if list := []rune(text); len(list) > maxAnswer {
		return string(list[:maxAnswer]) + "…"
	}
	return text
}

// cut joins lines, and cuts the result at the maximum length.
func cut(lines []string) string {
	text := strings.Join(lines, "\n")
	if len(text) <= maxText {
		return text
	}

	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}

	return text[:end] + "…"
}

// encode returns v as JSON. None of the values can fail.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}

	return b
}

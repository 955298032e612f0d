package route

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

// AlarmEvent is the kind of a message.
type AlarmEvent string

// The events of messages for teams.
const (
	AlarmDead      AlarmEvent = "dead"      // notices of a route have become dead letters for one reason
	AlarmDeadEnded AlarmEvent = "dead_over" // and no longer do
	AlarmDown      AlarmEvent = "down"      // receivers of a route fail
	AlarmDownEnded AlarmEvent = "down_over" // and no longer do
	AlarmTest      AlarmEvent = "test"

	AlarmPaused      AlarmEvent = "paused"      // receivers of a route are paused by rule
	AlarmPausedEnded AlarmEvent = "paused_over" // and no longer are

	// Of the service itself.
	AlarmLost        AlarmEvent = "data_lost"
	AlarmFull        AlarmEvent = "redis_full"
	AlarmFullEnded   AlarmEvent = "redis_full_over"
	AlarmUnavailable AlarmEvent = "redis_unavailable"
	AlarmAvailable   AlarmEvent = "redis_unavailable_over"
)

// AlarmMessage is one message to a team. Empty members are left out.
type AlarmMessage struct {
	Event    AlarmEvent `json:"event"`
	Instance string     `json:"instance,omitempty"`
	Route    string     `json:"route,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Count    int64      `json:"count,omitempty"` // of dead letters, or of receivers
	Since    time.Time  `json:"since,omitzero"`
	// Of the first one.
	Key      string `json:"key,omitempty"`
	Receiver string `json:"receiver,omitempty"`
	Status   int    `json:"status,omitempty"`
	Answer   string `json:"answer,omitempty"` // of the receiver
	Text     string `json:"text,omitempty"`   // what has happened to the service
	Link     string `json:"link,omitempty"`
}

const (
	// maxAlarmAnswer is the maximum length of a receiver's answer in a message, in characters.
	maxAlarmAnswer = 120
	// maxAlarmText is the maximum length of a message's text in bytes. WeCom takes 2,048.
	maxAlarmText = 2000
)

// Body returns the message as the body of a request, of the type application/json.
func (r *Robot) Body(m *AlarmMessage) []byte {
	if r == nil || r.Format == AlarmJSON {
		return encodeAlarm(m)
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
		return encodeAlarm(map[string]any{"msg_type": "post", "content": map[string]any{"post": map[string]any{
			lang: map[string]any{"title": lines[0], "content": append([][]map[string]string{}, rows...)}}}})
	case Slack:
		text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(cutLines(lines))
		if m.Link != "" {
			text += "\n<" + m.Link + "|" + open + ">"
		}

		return encodeAlarm(map[string]any{"text": text})
	case Teams:
		return encodeAlarm(alarmCard(lines, open, m.Link))
	}

	if m.Link != "" { // DingTalk and WeCom make it a link
		lines = append(lines, m.Link)
	}

	return encodeAlarm(map[string]any{"msgtype": "text", "text": map[string]any{"content": cutLines(lines)}})
}

// alarmCard returns an adaptive card in the envelope that the Workflows app takes. Teams reads Markdown in a text block, but not
// in the runs of a rich text block.
func alarmCard(lines []string, open, link string) any {
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

// alarmTitles are the first lines of messages, in English and Chinese. Each contains the word notifier, for robots that take
// only messages with a keyword.
var alarmTitles = map[AlarmEvent][2]string{
	AlarmDead:        {"notifier: dead letters of route %[1]s, reason %[3]s: %[2]d", "notifier：路由 %[1]s 的死信，原因 %[3]s：%[2]d 条"},
	AlarmDeadEnded:   {"notifier: recovered: no new dead letters of route %[1]s, reason %[3]s", "notifier：已恢复：路由 %[1]s 不再产生死信，原因 %[3]s"},
	AlarmDown:        {"notifier: failing receivers of route %[1]s: %[2]d", "notifier：路由 %[1]s 持续失败的接收方：%[2]d 个"},
	AlarmDownEnded:   {"notifier: recovered: the receivers of route %[1]s answer again", "notifier：已恢复：路由 %[1]s 的接收方恢复应答"},
	AlarmPaused:      {"notifier: receivers of route %[1]s paused by rule %[3]s: %[2]d", "notifier：路由 %[1]s 依规则 %[3]s 暂停的接收方：%[2]d 个"},
	AlarmPausedEnded: {"notifier: no receiver of route %[1]s is paused by rule any more", "notifier：路由 %[1]s 不再有依规则暂停的接收方"},
	AlarmTest:        {"notifier: test message", "notifier：测试消息"},
	AlarmLost:        {"notifier: data lost in Redis", "notifier：Redis 丢失数据"},
	AlarmFull:        {"notifier: Redis is full", "notifier：Redis 已满"},
	AlarmFullEnded:   {"notifier: recovered: Redis is no longer full", "notifier：已恢复：Redis 内存已有余量"},
	AlarmUnavailable: {"notifier: Redis is unavailable", "notifier：Redis 不可用"},
	AlarmAvailable:   {"notifier: recovered: Redis is available again", "notifier：已恢复：Redis 恢复可用"},
}

// lines returns the text of the message. The first line is its title.
func (r *Robot) lines(m *AlarmMessage) []string {
	title := alarmTitles[m.Event]
	text := r.say(title[0], title[1])
	if strings.Contains(text, "%") {
		text = fmt.Sprintf(text, cleanAlarm(m.Route), m.Count, cleanAlarm(m.Reason))
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

	if m.Event == AlarmDeadEnded && m.Count > 0 {
		add("Dead letters", "死信数", strconv.FormatInt(m.Count, 10))
	}

	add("First example", "首个示例", cleanAlarm(m.Key))
	add("Receiver", "接收方", cleanAlarm(m.Receiver))
	if m.Status > 0 {
		add("Status", "状态码", strconv.Itoa(m.Status))
	}

	add("Answer", "应答", shortAnswer(cleanAlarm(m.Answer)))
	add("Instance", "实例", cleanAlarm(m.Instance))
	if m.Text != "" {
		out = append(out, cleanAlarm(m.Text))
	}

	return out
}

// cleanAlarm puts a text on one line: characters that end a line, control the terminal or change the direction become spaces.
func cleanAlarm(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || notice.Invisible(r) }), " ")
}

// shortAnswer cuts an answer.
func shortAnswer(text string) string {
	if list := []rune(text); len(list) > maxAlarmAnswer {
		return string(list[:maxAlarmAnswer]) + "…"
	}
	return text
}

// cutLines joins lines, and cuts the result at the maximum length.
func cutLines(lines []string) string {
	text := strings.Join(lines, "\n")
	if len(text) <= maxAlarmText {
		return text
	}

	end := maxAlarmText
	for !utf8.RuneStart(text[end]) {
		end--
	}

	return text[:end] + "…"
}

// encodeAlarm returns v as JSON. None of the values can fail.
func encodeAlarm(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}

	return b
}

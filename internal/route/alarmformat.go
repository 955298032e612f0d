package route

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AlarmFormat is the form of the messages that an address takes.
type AlarmFormat string

// The formats of messages for teams.
const (
	AlarmJSON AlarmFormat = "json" // the facts, for programs
	DingTalk  AlarmFormat = "dingtalk"
	Feishu    AlarmFormat = "feishu" // and Lark
	WeCom     AlarmFormat = "wecom"
	Slack     AlarmFormat = "slack"
	Teams     AlarmFormat = "teams" // a webhook of the Workflows app
)

// AlarmFormats are the names of all formats.
var AlarmFormats = []string{string(AlarmJSON), string(DingTalk), string(Feishu), string(WeCom), string(Slack), string(Teams)}

// ParseAlarmFormat reads the name of a format.
func ParseAlarmFormat(name string) (AlarmFormat, error) {
	if !slices.Contains(AlarmFormats, name) {
		return "", fmt.Errorf("want %s or %s", strings.Join(AlarmFormats[:len(AlarmFormats)-1], ", "), AlarmFormats[len(AlarmFormats)-1])
	}
	return AlarmFormat(name), nil
}

// Ack is the acknowledgement rule of the format, as in a route's ACK. DingTalk, WeCom and Feishu refuse a message with the
// status 200.
func (f AlarmFormat) Ack() string {
	switch f {
	case DingTalk, WeCom:
		return "json:errcode=0"
	case Feishu:
		return "json:code=0"
	case Slack:
		return "body:ok"
	case Teams:
		return "status:202"
	}
	return "2xx"
}

// AlarmRate is the maximum number of messages a second. DingTalk refuses all messages for ten minutes after 20 in a minute.
const AlarmRate = 15.0 / 60

// Signs reports whether the format has a key that signs messages. The addresses of the other formats are their only
// secret.
func (f AlarmFormat) Signs() bool { return f == DingTalk || f == Feishu }

// Robot is the format of an address, and the key that signs its messages. A nil Robot sends facts as JSON, without a key.
type Robot struct {
	Format AlarmFormat
	// Chinese is the language of the messages; otherwise it is English.
	Chinese bool
	key     string
}

// NewRobot returns the robot at an address. key may be empty. The messages are in Chinese in DingTalk, WeCom and Feishu,
// but not in Lark, the international edition of Feishu.
func NewRobot(f AlarmFormat, address *url.URL, key string) *Robot {
	lark := address != nil && strings.HasSuffix(address.Hostname(), "larksuite.com")
	return &Robot{Format: f, Chinese: f == DingTalk || f == WeCom || f == Feishu && !lark, key: key}
}

// Signs reports whether the robot has a key. A nil Robot has none.
func (r *Robot) Signs() bool { return r != nil && r.key != "" }

// String hides the key.
func (r *Robot) String() string { return string(r.Format) }

// GoString hides the key.
func (r *Robot) GoString() string { return r.String() }

// Sign returns the query parameters and the body of an attempt at a time. Receivers refuse signatures that are older than
// an hour, so each attempt is signed again.
func (r *Robot) Sign(body []byte, at time.Time) (query string, signed []byte) {
	switch {
	case r.key == "":
		return "", body
	case r.Format == DingTalk:
		ms := strconv.FormatInt(at.UnixMilli(), 10)
		return "timestamp=" + ms + "&sign=" + url.QueryEscape(robotMAC(r.key, ms+"\n"+r.key)), body
	case r.Format == Feishu && len(body) > 2 && body[0] == '{':
		s := strconv.FormatInt(at.Unix(), 10)
		return "", append([]byte(`{"timestamp":"`+s+`","sign":"`+robotMAC(s+"\n"+r.key, "")+`",`), body[1:]...)
	}
	return "", body
}

// robotMAC is the HMAC-SHA256 of a text, in base64. Feishu signs an empty text with a key that contains the time.
func robotMAC(key, text string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

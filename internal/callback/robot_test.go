package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// team is the receiver of one format: it checks a message as the real one does, and refuses it as that does.
type team struct {
	path            string
	ok, refused     string // answers
	okStatus, wrong int    // status codes
	check           func(r *http.Request, body map[string]any) bool
}

const robotKey = "SEC0123456789abcdef"

func digest(key, text string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// recent reports whether a time in Unix seconds is within an hour of now, as the receivers want it.
func recent(s int64) bool { return time.Since(time.Unix(s, 0)).Abs() < time.Hour }

func isText(_ *http.Request, body map[string]any) bool {
	text, _ := body["text"].(map[string]any)
	content, _ := text["content"].(string)
	return body["msgtype"] == "text" && strings.Contains(content, "notifier") && len(content) <= 2048
}

var teams = map[route.AlarmFormat]team{
	route.DingTalk: {"/robot/send?access_token=0123456789abcdef0123", `{"errcode":0,"errmsg":"ok"}`, `{"errcode":310000,"errmsg":"sign not match"}`,
		200, 200, func(r *http.Request, body map[string]any) bool {
			q := r.URL.Query()
			ms, _ := strconv.ParseInt(q.Get("timestamp"), 10, 64)
			return isText(r, body) && q.Get("access_token") == "0123456789abcdef0123" && recent(ms/1000) &&
				q.Get("sign") == digest(robotKey, q.Get("timestamp")+"\n"+robotKey)
		}},
	route.Feishu: {"/open-apis/bot/v2/hook/0123abcd-0123-4567", `{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}`,
		`{"code":19021,"data":{},"msg":"sign match fail or timestamp is not within one hour from current time"}`, 200, 200,
		func(_ *http.Request, body map[string]any) bool {
			at, _ := body["timestamp"].(string)
			s, _ := strconv.ParseInt(at, 10, 64)
			content, _ := body["content"].(map[string]any)
			return body["msg_type"] == "post" && content["post"] != nil && recent(s) && body["sign"] == digest(at+"\n"+robotKey, "")
		}},
	route.WeCom: {"/cgi-bin/webhook/send?key=633a31f6-7f9c-4bc4-97a0", `{"errcode":0,"errmsg":"ok"}`,
		`{"errcode":45009,"errmsg":"api freq out of limit"}`, 200, 200, isText},
	route.Slack: {"/services/T0000000/B0000000/XXXXXXXXXXXX0", "ok", "invalid_payload", 200, 400,
		func(_ *http.Request, body map[string]any) bool { text, _ := body["text"].(string); return text != "" }},
	route.Teams: {"/workflows/0123456789abcdef/triggers/manual/paths/invoke?api-version=1&sig=0123456789", "", "", 202, 400,
		func(_ *http.Request, body map[string]any) bool {
			list, _ := body["attachments"].([]any)
			card, _ := list[0].(map[string]any)
			return body["type"] == "message" && card["contentType"] == "application/vnd.microsoft.card.adaptive"
		}},
}

func robotRoute(t *testing.T, f route.AlarmFormat, address, key string) *route.Route {
	t.Helper()
	r := fixedRoute(address)
	r.Target.Secret, r.Robot = true, route.NewRobot(f, r.Target.URL, key)
	ack, err := route.ParseAck(f.Ack())
	if err != nil {
		t.Fatal(err)
	}
	r.Ack = ack
	return r
}

func TestEachFormatIsTakenAndRefused(t *testing.T) {
	for f, want := range teams {
		t.Run(string(f), func(t *testing.T) {
			var seen string
			s := server(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				seen = r.URL.String() + " " + string(b)
				var body map[string]any
				if json.Unmarshal(b, &body) == nil && r.Header.Get("content-type") == "application/json" && want.check(r, body) {
					w.WriteHeader(want.okStatus)
					_, _ = io.WriteString(w, want.ok)
					return
				}
				w.WriteHeader(want.wrong)
				_, _ = io.WriteString(w, want.refused)
			})
			h := newHandler(t, Options{})
			key := ""
			if f.Signs() {
				key = robotKey
			}
			r := robotRoute(t, f, s.URL+want.path, key)
			n := testNotice(string(r.Robot.Body(&route.AlarmMessage{Event: route.AlarmDead, Route: "shop", Reason: "gone", Count: 1})))
			if res := h.Handle(background(t), r, n); res.Outcome != notice.OutcomeDelivered {
				t.Errorf("%+v of %s", res, seen)
			}

			bad := testNotice(`{"msg_type":"x","attachments":[{}]}`)
			bad.Body = []byte(`{"msg_type":"x","attachments":[{}]}`)
			if res := h.Handle(background(t), r, bad); res.Outcome != notice.OutcomeRetry {
				t.Errorf("refused: %+v", res)
			}
			if f.Signs() {
				other := robotRoute(t, f, s.URL+want.path, "SECanother")
				if res := h.Handle(background(t), other, n); res.Reason != notice.ReasonAckMismatch || !strings.Contains(res.Response, "match") {
					t.Errorf("another key: %+v", res)
				}
			}
		})
	}
}

// The address is a secret: neither a test's exchange, a copy nor an echoed answer shows it.
func TestRobotAddressIsHidden(t *testing.T) {
	for f, want := range teams {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "no robot at "+r.URL.String())
		}))
		h := newHandler(t, Options{})
		r := robotRoute(t, f, s.URL+want.path, "")
		x := h.Probe(background(t), r, testNotice("{}"))
		shown := x.String() + h.Copy(r, testNotice("{}")).URL
		for part := range strings.FieldsFuncSeq(want.path, func(r rune) bool { return strings.ContainsRune("/?&=", r) }) {
			if len(part) > 4 && strings.ContainsAny(part, "0123456789") && strings.Contains(shown, part) {
				t.Errorf("%s: %q is in\n%s", f, part, shown)
			}
		}
		s.Close()
	}
}

package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"notifier/internal/notice"
)

// A notice that would not be sent as it would have been is not put back.
func TestRestoreRefusesWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const pending, dead = "app1:orders:t:pending", "app1:orders:t:dead"
	var whole [2]map[string]any
	for i, key := range []string{pending, dead} {
		b.do("POST", "/v1/notices", `{"key":"`+key+`","delay":"1h","url":"https://shop.example/"}`).is(201)
		if key == dead {
			b.engine.Move(key, notice.Dead, notice.ReasonGone)
		}
		whole[i] = b.do("GET", "/v1/notices/"+key, "").is(200).json()
		b.engine.Drop(key)
	}

	for _, c := range []struct {
		of           int // whole
		change, says string
		status       int
	}{
		{0, `{"masked":true}`, "parts of it were masked", 422},
		{0, `{"unreadable":["body"]}`, "the history cannot read its body", 422},
		{0, `{"body_kept":false}`, "its body was not kept", 422},
		{0, `{"body":1,"body_base64":"MQ=="}`, "body and body_base64 are given", 422},
		{0, `{"replay":"a b"}`, "want the id of a replay", 422},
		{0, `{"state":null}`, "want scheduled, claimed or dead", 422},
		{0, `{"due":null}`, "when it is due", 422},
		{0, `{"id":"msg_other"}`, "is not that of a notice of this key", 422},
		{1, `{"settled_at":null}`, "when it died", 422},
		{1, `{"reason":"unreadable"}`, "nothing of such a notice was kept", 422},
		{1, `{"attempt":null,"attempts_made":0}`, "are more than were made", 422},
		{0, `{"body":"` + strings.Repeat("x", 257<<10) + `"}`, "body[0].body is larger than the 262144 bytes", 413},
		{0, `{"body":"` + strings.Repeat("x", 600<<10) + `"}`, "the notice is larger than", 413},
	} {
		m := maps.Clone(whole[c.of])
		if err := json.Unmarshal([]byte(c.change), &m); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b.do("POST", "/v1/notices/restore", string(text)).is(207).says(fmt.Sprintf(`"status":%d,`, c.status), c.says)
	}
	for _, key := range []string{pending, dead} {
		b.do("GET", "/v1/notices/"+key, "").is(404)
	}
}

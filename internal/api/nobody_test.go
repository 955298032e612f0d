package api_test

import "testing"

// Many clients send a body with every call; those of one language send null.
func TestCallWithoutBodyAcceptsNull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const key = "app1:jobs:t:a"
	for _, body := range []string{"", "null", " null\n", "{}"} {
		b.do("POST", "/v1/notices", `{"key":"`+key+`","delay":"1h","on_duplicate":"replace"}`).is(201)
		b.do("DELETE", "/v1/notices/"+key, body).is(200)
	}
	for _, body := range []string{`"null"`, "[]", `{"a":1}`, "null null"} {
		if code := b.do("DELETE", "/v1/notices/"+key, body).status; code < 400 {
			t.Errorf("%s is accepted: %d", body, code)
		}
	}
}

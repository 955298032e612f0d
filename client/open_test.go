package client_test

import (
	"net/http"
	"testing"

	"notifier/client"
	"notifier/internal/notice"
)

// The content is byte for byte the producer's, whichever member the answer has it in.
func TestClientOpensSealedTexts(t *testing.T) {
	c, engine := serve(t, func(h http.Handler) http.Handler { return h })
	const key = "app1:a:b:1"
	for _, x := range []notice.Content{
		{Body: []byte(`{"a" : "<ä>"}`)}, {Body: []byte("text")}, {Body: []byte("\xff\x00")}, {Body: []byte("null")}, {},
		{Body: []byte("{\"a\":\"\u202e\"}"), Headers: []notice.Header{{Name: "X-Card", Value: "7"}, {Name: "X-Token", Value: "8"}}},
	} {
		o, err := c.Open(t.Context(), key, engine.SealText("m17", key, x))
		if err != nil || string(o.Content()) != string(x.Body) || o.ContentType != x.EffectiveType() || o.Key != key {
			t.Errorf("%q: %q, %+v, %v", x.Body, o.Content(), o, err)
		}
		if len(x.Headers) > 0 && (o.Headers["X-Card"] != "7" || len(o.Headers) != 1 || o.Withheld[0] != "X-Token") {
			t.Errorf("%+v", o)
		}
	}
	if _, err := c.Open(t.Context(), key+"0", engine.SealText("m17", key, notice.Content{})); !client.IsStatus(err, 422) {
		t.Error(err)
	}
}

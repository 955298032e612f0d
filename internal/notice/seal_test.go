package notice

import (
	"reflect"
	"strings"
	"testing"
)

var secrets = []Content{
	{},
	{Body: []byte("x")},
	{Body: []byte(`{"card":"4111","n":[1,{"a":"]}"}],"b":"\"}"}`)},
	{Body: []byte(`"a \" quote"`)},
	{Body: []byte(`[]`), URL: "https://u:p@shop.example/?a=1"},
	{Body: []byte("with \"quotes\" and a\nline"), URL: "https://u:p@shop.example/"},
	{Body: []byte{0xff, 0, 1}},
	{Body: []byte("x"), Headers: []Header{{Name: "X-Card", Value: "4111"}}},
	{URL: "https://u:p@shop.example/", Headers: []Header{{Name: "Authorization", Value: "Bearer x"}}},
}

func TestScannedSecretIsTheDecodedOne(t *testing.T) {
	scanned := 0
	for _, c := range secrets {
		text := c.Secret()
		want, err := DecodeContent(text)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := scanSecret(string(text))
		if ok {
			scanned++
		}
		if ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: scanned %+v, decoded %+v", text, got, want)
		}
		if ok && strings.Contains(string(text), `"headers"`) {
			t.Errorf("%s was scanned", text)
		}
	}
	if scanned != 4 {
		t.Errorf("%d secrets were scanned, want 4", scanned)
	}
}

// The scan agrees with encoding/json about every text that it accepts and that is valid JSON.
func FuzzScanSecret(f *testing.F) {
	for _, c := range secrets {
		f.Add(string(c.Secret()))
	}
	f.Add(`{"text":"a","json":1}`)
	f.Add(`{"json":{"a":"`)
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := scanSecret(text)
		if !ok {
			return
		}
		if want, err := DecodeContent([]byte(text)); err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("scanned %+v, decoded %+v", got, want)
		}
	})
}

package seal

import (
	_ "embed"
	"encoding/json"
	"testing"
)

// vectorsText is written by testdata/vectors.py.
//
//go:embed testdata/vectors.json
var vectorsText []byte

type vector struct {
	ServiceKey string  `json:"service_key"`
	Space      string  `json:"namespace"`
	Subject    Subject `json:"subject"`
	Notice     string  `json:"notice"`
	DataKey    string  `json:"data_key"`
	Data       string  `json:"wrapped_data_key"`
	DigestKey  string  `json:"digest_key"`
	Digesting  string  `json:"wrapped_digest_key"`
	Kind       Kind    `json:"kind"`
	Plain      []byte  `json:"plain"`
	Text       string  `json:"text"`
	Digest     string  `json:"digest"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	var list []vector
	if err := json.Unmarshal(vectorsText, &list); err != nil || len(list) < 4 {
		t.Fatalf("%d vectors: %v", len(list), err)
	}
	return list
}

// keys returns the keys of a vector.
func (v vector) keys(t testing.TB) (*ServiceKeys, *DataKey, *DigestKey) {
	t.Helper()
	service, err := ParseServiceKeys(v.ServiceKey)
	if err != nil {
		t.Fatal(err)
	}
	data, err := service.UnwrapData(v.Space, v.Subject, v.DataKey, v.Data)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := service.UnwrapDigest(v.Space, v.Subject, v.DigestKey, v.Digesting)
	if err != nil {
		t.Fatal(err)
	}
	return service, data, digest
}

// Another implementation of the documented format has written these texts.
func TestVectorsOpen(t *testing.T) {
	for _, v := range vectors(t) {
		_, data, digest := v.keys(t)
		text, err := ParseText(v.Text)
		if err != nil || text.Kind != v.Kind || text.DataKey != v.DataKey || text.String() != v.Text || DataKeyOf(v.Text) != v.DataKey {
			t.Fatalf("%s: %+v, %v", v.Text, text, err)
		}
		if plain, err := data.Open(text, v.Space, v.Notice); err != nil || string(plain) != string(v.Plain) {
			t.Errorf("%s: %q, %v", v.Text, plain, err)
		}
		if got, err := digest.Digest(v.Space, v.Notice, v.Plain); err != nil || got != v.Digest {
			t.Errorf("digest %s, want %s, %v", got, v.Digest, err)
		}
	}
}

func TestVectorsAreSealedTheSame(t *testing.T) {
	for _, v := range vectors(t) {
		service, data, digest := v.keys(t)
		if got, err := data.sealWith(saltOf(t, v.Text), v.Kind, v.Space, v.Notice, v.Plain); err != nil || got.String() != v.Text {
			t.Errorf("%s, want %s, %v", got, v.Text, err)
		}
		if got, err := service.wrap(saltOf(t, v.Data), data.secret, binding{useData, v.Space, v.Subject, data.ID}); err != nil || got != v.Data {
			t.Errorf("%s, want %s, %v", got, v.Data, err)
		}
		got, err := service.wrap(saltOf(t, v.Digesting), digest.secret, binding{useDigest, v.Space, v.Subject, digest.ID})
		if err != nil || got != v.Digesting {
			t.Errorf("%s, want %s, %v", got, v.Digesting, err)
		}
	}
}

// saltOf returns the salt of a sealed text or a wrapped key.
func saltOf(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := decode(lastPart(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw[:saltSize]
}

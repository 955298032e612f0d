package worker

import "encoding/json"

// Codec encodes and decodes typed bodies.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(body []byte, v any) error
	// ContentType is that of the bodies.
	ContentType() string
}

// jsonType is the content type of a body without one.
const jsonType = "application/json"

// jsonCodec is the Codec of encoding/json.
type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(body []byte, v any) error { return json.Unmarshal(body, v) }
func (jsonCodec) ContentType() string                { return jsonType }

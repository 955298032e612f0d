package codec

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"notifier/internal/notice"
)

// Schema describes a Delay.
func (Delay) Schema(huma.Registry) *huma.Schema {
	most := notice.MaxHorizon.Seconds()
	least := 0.0
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Description: "A Go duration, or seconds.", Examples: []any{"15s", "1h30m", "250ms"}},
			{Type: huma.TypeNumber, Description: "Seconds: 5000 is 1h23m20s. Five seconds are 5 or \"5s\", never 5000.", Minimum: &least,
				Maximum: &most},
		},
	}
}

// Schema describes Steps.
func (Steps) Schema(r huma.Registry) *huma.Schema {
	most := notice.MaxSteps
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeArray, Items: Delay{}.Schema(r), MaxItems: &most},
			{Type: huma.TypeString, Examples: []any{"15s,3m,10m", "none", "wechat"}},
		},
	}
}

// Schema describes a Ladder.
func (Ladder) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}
}

// Schema describes Headers.
func (Headers) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}}
}

// Schema describes a Stamp.
func (Stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-21T09:30:00.000Z"}}
}

// Schema describes a Due.
func (Due) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// Schema describes Attempts. The duration of an attempt is written in ms.
func (Attempts) Schema(r huma.Registry) *huma.Schema {
	items := r.Schema(reflect.TypeFor[notice.Attempt](), true, "")
	duration := r.SchemaFromRef(items.Ref).Properties["duration_ms"]
	duration.Type, duration.Format = huma.TypeNumber, "double"
	return &huma.Schema{Type: huma.TypeArray, Items: items}
}

package api

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"notifier/internal/codec"
	"notifier/internal/notice"
)

// The types below describe the types of package codec, whose JSON is not that of their Go types. Codec itself does not import huma.
type (
	delaySchema    struct{}
	stepsSchema    struct{}
	ladderSchema   struct{}
	headersSchema  struct{}
	stampSchema    struct{}
	dueSchema      struct{}
	expirySchema   struct{}
	attemptsSchema struct{}
)

// newRegistry returns a registry that describes types of package codec as above.
func newRegistry() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", schemaName)
	r.RegisterTypeAlias(reflect.TypeFor[codec.Delay](), reflect.TypeFor[delaySchema]())
	r.RegisterTypeAlias(reflect.TypeFor[codec.Steps](), reflect.TypeFor[stepsSchema]())
	r.RegisterTypeAlias(reflect.TypeFor[codec.Ladder](), reflect.TypeFor[ladderSchema]())
	r.RegisterTypeAlias(reflect.TypeFor[codec.Headers](), reflect.TypeFor[headersSchema]())
	r.RegisterTypeAlias(reflect.TypeFor[codec.Stamp](), reflect.TypeFor[stampSchema]())
	r.RegisterTypeAlias(reflect.TypeFor[codec.Due](), reflect.TypeFor[dueSchema]())
	r.RegisterTypeAlias(reflect.TypeFor[codec.Expiry](), reflect.TypeFor[expirySchema]())
	r.RegisterTypeAlias(reflect.TypeFor[codec.Attempts](), reflect.TypeFor[attemptsSchema]())
	return r
}

// Schema describes a [codec.Delay].
func (delaySchema) Schema(huma.Registry) *huma.Schema {
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

// Schema describes [codec.Steps].
func (stepsSchema) Schema(r huma.Registry) *huma.Schema {
	most := notice.MaxSteps
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeArray, Items: delaySchema{}.Schema(r), MaxItems: &most},
			{Type: huma.TypeString, Examples: []any{"15s,3m,10m", "none", "wechat"}},
		},
	}
}

// Schema describes a [codec.Ladder].
func (ladderSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}
}

// Schema describes [codec.Headers].
func (headersSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}}
}

// Schema describes a [codec.Stamp].
func (stampSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-21T09:30:00.000Z"}}
}

// Schema describes a [codec.Due].
func (dueSchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// Schema describes a [codec.Expiry].
func (expirySchema) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf: []*huma.Schema{
			{Type: huma.TypeString, Description: "A time, or a Go duration after the due time.",
				Examples: []any{"2026-11-21T09:30:00.000Z", "10m"}},
			{Type: huma.TypeNumber, Description: "Seconds after the due time."},
		},
	}
}

// Schema describes [codec.Attempts]. The duration of an attempt is written in ms.
func (attemptsSchema) Schema(r huma.Registry) *huma.Schema {
	items := r.Schema(reflect.TypeFor[notice.Attempt](), true, "")
	duration := r.SchemaFromRef(items.Ref).Properties["duration_ms"]
	duration.Type, duration.Format = huma.TypeNumber, "double"
	return &huma.Schema{Type: huma.TypeArray, Items: items}
}

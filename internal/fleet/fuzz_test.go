package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// told is what stands in Redis of one instance.
type told struct{ id, about, figures string }

func (o told) Signs(context.Context) (int64, []Sign, error) {
	return 1_800_000_000_000, []Sign{{ID: o.id, At: 1_800_000_000_000}}, nil
}

func (o told) Told(_ context.Context, ids []string) ([]Told, error) {
	return slices.Repeat([]Told{{About: o.about, Figures: o.figures}}, len(ids)), nil
}

// FuzzTold: whatever stands where instances tell of themselves, all are listed, and the
// list can be written for others.
func FuzzTold(f *testing.F) {
	f.Add("aaaaaaaaaaaa", `{"label":"web-1","version":"v1","takeover":3000,"routes":{"r":"x"}}`, `{"clock_ms":5,"routes":{"r":{"late":[1]}}}`)
	f.Add("aaaaaaaaaaaa", `{"label":5}`, `{"clock_ms":"x"}`)
	f.Add("", `[]`, `nul`)
	f.Add("AAAAAAAAAAAA", "\xff", `{"clock_ms":1e999}`)
	f.Add("bbbbbbbbbbbb", `{"takeover":-9223372036854775808}`, `{"routes":null}`)
	f.Add("cccccccccccc", strings.Repeat("[", 5000), strings.Repeat("{\"a\":", 5000))
	f.Fuzz(func(t *testing.T, id, about, figures string) {
		list, err := List(t.Context(), told{id, about, figures})
		if err != nil || (len(list) == 1) != validID(id) {
			t.Fatalf("%d, %v", len(list), err)
		}
		for _, i := range list {
			if _, err := json.Marshal(i); err != nil {
				t.Fatal(err)
			}
			if read, ok := i.ReadFigures(); ok {
				if _, err := json.Marshal(read); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, m := range ReadMinutes([]MinuteEntry{{Text: about}, {Text: figures}}) {
			if text, err := m.Encode(); err != nil || m.At <= 0 {
				t.Fatal(text, err)
			}
		}
	})
}

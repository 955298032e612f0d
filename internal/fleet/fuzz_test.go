package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// told is the stored description and figures of one instance.
type described struct{ id, about, figures string }

func (o described) Heartbeats(context.Context) (int64, []LastHeartbeat, error) {
	return 1_800_000_000_000, []LastHeartbeat{{ID: o.id, At: 1_800_000_000_000}}, nil
}

func (o described) Descriptions(_ context.Context, ids []string) ([]Description, error) {
	return slices.Repeat([]Description{{About: o.about, Figures: o.figures}}, len(ids)), nil
}

// FuzzDescriptions checks that listings contain all instances and can be encoded, whatever the fleet's keys
// contain.
func FuzzDescriptions(f *testing.F) {
	f.Add("aaaaaaaaaaaa", `{"label":"web-1","version":"v1","takeover":3000,"routes":{"r":"x"}}`, `{"clock_ms":5,"routes":{"r":{"late":[1]}}}`)
	f.Add("aaaaaaaaaaaa", `{"label":5}`, `{"clock_ms":"x"}`)
	f.Add("", `[]`, `nul`)
	f.Add("AAAAAAAAAAAA", "\xff", `{"clock_ms":1e999}`)
	f.Add("bbbbbbbbbbbb", `{"takeover":-9223372036854775808}`, `{"routes":null}`)
	f.Add("cccccccccccc", strings.Repeat("[", 5000), strings.Repeat("{\"a\":", 5000))
	f.Fuzz(func(t *testing.T, id, about, figures string) {
		list, err := List(t.Context(), described{id, about, figures})
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

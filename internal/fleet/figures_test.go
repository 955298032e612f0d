package fleet

import (
	"fmt"
	"maps"
	"testing"

	"notifier/internal/notice"
)

func TestFiguresAreCutToTheirLimit(t *testing.T) {
	f := Figures{Since: 1, Routes: map[string]RouteFigures{}}
	for i := range 60 {
		f.Routes[fmt.Sprintf("app%d", i)] = RouteFigures{InFlight: i, Work: Work{Late: Spread{1: 1}}}
		for j := range 10 {
			f.Hosts = append(f.Hosts, HostFigures{Prefix: fmt.Sprintf("app%d", i), Host: fmt.Sprintf("shop%d.example:443", j),
				Calls: int64(600 - 10*i - j)})
		}
	}
	read := func(f Figures) Figures {
		t.Helper()
		text := f.Encode()
		got, ok := Instance{Figures: text}.ReadFigures()
		if len(text) > MaxAbout || !ok {
			t.Fatalf("%d bytes, read: %v", len(text), ok)
		}
		return got
	}
	got := read(f)
	if !got.Cut || len(got.Hosts) == 0 || got.Hosts[0].Calls != 600 || len(got.Routes) != 60 || got.Routes["app7"].Late == nil {
		t.Errorf("cut %v, %d hosts, %d routes", got.Cut, len(got.Hosts), len(got.Routes))
	}
	for i := range 400 {
		f.Routes[fmt.Sprintf("more%d", i)] = RouteFigures{InFlight: 1, Work: Work{Late: Spread{1: 1, 2: 2, 3: 3}}}
	}
	if got = read(f); !got.Cut || len(got.Hosts) != 0 || len(got.Routes) != 460 || got.Routes["app7"].Late != nil ||
		got.Routes["app7"].InFlight != 7 {
		t.Errorf("cut %v, %d hosts, %d routes", got.Cut, len(got.Hosts), len(got.Routes))
	}
	for i := range 4000 {
		f.Routes[fmt.Sprintf("most%d", i)] = RouteFigures{InFlight: 1}
	}
	if got = read(f); !got.Cut || len(got.Routes) != 0 {
		t.Errorf("cut %v, %d routes", got.Cut, len(got.Routes))
	}
	if _, ok := (Instance{}).ReadFigures(); ok {
		t.Error("an instance without published figures has some")
	}
}

func TestWaitingSumsInstancesByRoute(t *testing.T) {
	one := Figures{Routes: map[string]RouteFigures{"app1": {Waiting: map[notice.Held]int{notice.HeldRate: 2, notice.HeldBusy: 3}},
		"app2": {InFlight: 1}}}
	two := Figures{Routes: map[string]RouteFigures{"app1": {Waiting: map[notice.Held]int{notice.HeldRate: 4}}}}
	got := Waiting([]Instance{{Figures: one.Encode()}, {Figures: two.Encode()}, {Figures: []byte("no JSON")}, {}})
	if want := map[string]int{"app1": 9}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestInvalidMinutesAreSkipped(t *testing.T) {
	text, err := Minute{Instance: "a", At: 5, Routes: map[string]Work{"app1": {Late: Spread{3: 4}}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got := ReadMinutes([]MinuteEntry{{Text: "no JSON"}, {Text: `{"i":"b"}`}, {Text: text}})
	if len(got) != 1 || got[0].Routes["app1"].Late.Count() != 4 {
		t.Errorf("%+v", got)
	}
}

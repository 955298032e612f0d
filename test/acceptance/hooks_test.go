//go:build fault

package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Notices die while their three instances are killed, one after another, and replaced. The hook's route
// gets one notice for each death. One that comes twice was in flight when an instance was killed.
func TestDeathsReachTheHookThroughKills(t *testing.T) {
	const n, kills = 5000, 6
	dead := listen(t, func(w http.ResponseWriter, _ *http.Request, _ hit) { w.WriteHeader(http.StatusGone) })
	hook := listen(t, (&busy{takes: 20 * time.Millisecond}).answer)
	db := newRedis(t)
	env := [][]string{route("pay", "app1:pay", dead.url, "ON_DEAD=alarms"), route("alarms", "ops:alarms", hook.url)}
	all := fleetOf(t, 3, db.URL(), env...)
	name := func(i int) string { return fmt.Sprintf("app1:pay:x:%d", i) }
	from := time.Now().Add(time.Second)
	all[0].scheduleAll(n, func(i int) string { return line(name(i), from.Add(time.Duration(i)*15*time.Millisecond)) })

	var killed []time.Time
	for i := range kills {
		hook.wait(waitTimeout, n*(i+1)/(kills+2))
		all[i%3].kill()
		killed = append(killed, time.Now())
		all[i%3] = launch(t, db.URL(), env...)
	}
	hook.wait(waitTimeout, n)
	await(t, waitTimeout, "all deaths scheduled and their notices delivered", func() bool {
		return all[0].metric("notifier_hook_backlog") == 0 && all[0].settled("alarms") == n
	})

	ids, twice := map[string]string{}, 0
	for key, hits := range hook.byKey() {
		about, _, _ := strings.Cut(hits[0].body[strings.Index(hits[0].body, `"key":"`)+len(`"key":"`):], `"`)
		if other, again := ids[about]; again {
			t.Errorf("the death of %s has two notices, %s and %s", about, other, key)
		}
		ids[about] = key
		for _, h := range hits[1:] {
			twice++
			explained := false
			for _, k := range killed {
				d := k.Sub(hits[0].at)
				explained = explained || d > -time.Second && d < time.Second
			}
			if !explained {
				t.Errorf("%s came again %s after the first time, which no kill explains", key, h.at.Sub(hits[0].at))
			}
		}
	}
	for i := range n {
		if ids[name(i)] == "" {
			t.Errorf("the death of %s did not reach the hook", name(i))
		}
	}
	t.Logf("%d deaths, %d kills, %d notices of the hook came twice", len(ids), kills, twice)
}

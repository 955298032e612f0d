//go:build fault

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"notifier/client"
)

const (
	tenants      = 10
	tenantRate   = 20 // requests a second that are admitted, for each tenant
	hostileRate  = 4 * tenantRate
	honestRate   = 200
	honestFor    = 12 * time.Second
	honestToken  = "token-of-the-honest-tenant-0123456789"
	shippedLimit = 512 // MiB, of deploy/kubernetes.yaml
)

func tenantToken(i int) string { return fmt.Sprintf("token-of-tenant-%d-01234567890123456", i) }

// neighbourhood is a service with an honest tenant and ten others.
type neighbourhood struct {
	*service
	t       *testing.T
	pay     *receiver // the honest tenant's
	other   *receiver
	members []*tenant

	mu       sync.Mutex
	answered map[string]map[int]int // by attack and status
	failed   map[string]int
}

// tenant is one of the ten.
type tenant struct {
	n       int
	token   string
	prefix  string
	session *http.Cookie
	csrf    string
	link    string // the path of a read-only link
	web     *http.Client
}

func (m *tenant) notice() string { return m.prefix + ":a:b:own" }

func settle(t *testing.T) *neighbourhood {
	t.Helper()
	h := &neighbourhood{t: t, pay: listen(t, nil), other: listen(t, nil), answered: map[string]map[int]int{}, failed: map[string]int{}}
	db := newRedis(t)
	env := []string{"NOTIFIER_CLIENT_HONEST_TOKEN=" + honestToken, "NOTIFIER_CLIENT_HONEST_PREFIX=honest",
		"NOTIFIER_CLIENT_HONEST_ROLE=operate",
		"NOTIFIER_HISTORY_URL=sqlite://" + filepath.Join(t.TempDir(), "history.db"), "GOMEMLIMIT=400MiB"}
	clients, routes := []string{"honest"}, route("honest", "honest:pay", h.pay.url)
	for i := range tenants {
		m := &tenant{n: i, token: tenantToken(i), prefix: fmt.Sprintf("t%d", i)}
		m.web = &http.Client{Timeout: waitTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 16},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		t.Cleanup(m.web.CloseIdleConnections)
		h.members = append(h.members, m)
		clients = append(clients, m.prefix)
		begin := "NOTIFIER_CLIENT_" + strings.ToUpper(m.prefix) + "_"
		env = append(env, begin+"TOKEN="+m.token, begin+"PREFIX="+m.prefix, begin+"ROLE=admin", begin+fmt.Sprintf("RATE=%d/s", tenantRate))
		routes = append(routes, route(m.prefix, m.prefix, "notice", "ALLOW=127.0.0.1", "HEADERS=Authorization=Bearer secret-of-the-operator",
			"HEADERS_TO=http://127.0.0.1:*,shop.example")...)
	}
	h.service = launch(t, db.URL(), routes, append(env, "NOTIFIER_CLIENTS="+strings.Join(clients, ",")))
	for _, m := range h.members {
		h.prepare(m)
	}
	const warm = 300
	h.other.wait(waitTimeout, tenants*warm)
	return h
}

// prepare gives a tenant a history, a pending notice, a session and a link.
func (h *neighbourhood) prepare(m *tenant) {
	h.t.Helper()
	const warm = 300
	var lines [][]byte
	for i := range warm {
		lines = append(lines, fmt.Appendf(nil, `{"key":"%s:a:b:%d","url":%q,"body":{"card":"declined %d"}}`, m.prefix, i, h.other.url, i))
	}
	lines = append(lines, fmt.Appendf(nil, `{"key":%q,"url":%q,"delay":"2h"}`, m.notice(), h.other.url))
	api := h.as(m.token)
	results, err := api.ScheduleLines(h.t.Context(), lines)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range results {
		if !r.Created {
			h.t.Fatalf("%+v", r)
		}
	}
	l, err := api.PortalLink(h.t.Context(), client.PortalLinkRequest{Prefix: m.prefix})
	if err != nil {
		h.t.Fatal(err)
	}
	u, err := url.Parse(l.URL)
	if err != nil {
		h.t.Fatal(err)
	}
	m.link, m.session = u.Path, h.signedInAs(m.token)
	if m.csrf = h.csrf(m, m.session); m.csrf == "" {
		h.t.Fatal("a page without a form")
	}
}

// page makes a call of the pages.
func (h *neighbourhood) page(ctx context.Context, m *tenant, cookie *http.Cookie, path string, form url.Values) (int, string,
	[]*http.Cookie, error) {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", nil, err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != nil {
		req.AddCookie(cookie)
	}
	res, err := m.web.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, string(raw), res.Cookies(), err
}

func (h *neighbourhood) csrf(m *tenant, cookie *http.Cookie) string {
	_, body, _, err := h.page(h.t.Context(), m, cookie, "/ui/notices", nil)
	if found := csrfOf.FindStringSubmatch(body); err == nil && found != nil {
		return found[1]
	}
	return ""
}

// attack is one of the twelve, and the honest call that takes its place. Hits is a status of a
// call that was admitted.
type attack struct {
	name   string
	hits   int
	do     act
	honest act
}

// act makes the i-th call of a tenant.
type act func(ctx context.Context, m *tenant, i int) (status int, err error)

// unknown is a batch, about 64 KiB, of which no member is known.
var unknown = func() string {
	var b bytes.Buffer
	for b.Len() < 64<<10 {
		b.WriteString(`{"key":"x"`)
		for i := range 200 {
			fmt.Fprintf(&b, `,"unknown%d":%d`, i, i)
		}
		b.WriteString("}\n")
	}
	return b.String()
}()

func (h *neighbourhood) attacks() []attack {
	api := func(method, path, body string) act {
		return func(ctx context.Context, m *tenant, i int) (int, error) {
			fill := strings.NewReplacer("{prefix}", m.prefix, "{i}", fmt.Sprint(i), "{own}", m.notice(), "{url}", h.other.url)
			return h.send(ctx, m, m.token, method, fill.Replace(path), fill.Replace(body))
		}
	}
	look := func(ctx context.Context, m *tenant, _ int) (int, error) {
		status, _, _, err := h.page(ctx, m, m.session, "/ui/notices", nil)
		return status, err
	}
	const one = `{"key":"{prefix}:a:b:{i}-%d","delay":"1h","url":"{url}","on_duplicate":"replace"}` + "\n"
	schedule, get := api("POST", "/v1/notices", fmt.Sprintf(one, 0)), api("GET", "/v1/notices/{own}", "")
	var twenty strings.Builder
	for i := range bytes.Count([]byte(unknown), []byte("\n")) {
		fmt.Fprintf(&twenty, one, i)
	}
	batch := api("POST", "/v1/notices/batch", twenty.String())
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	return []attack{
		{"sign-outs by a link", http.StatusSeeOther, h.signOutByLink, look},
		{"reschedules", http.StatusOK, api("PATCH", "/v1/notices/{own}", `{"delay":"2h"}`), schedule},
		{"text searches", http.StatusOK, api("GET", "/v1/history?text=declined&since="+url.QueryEscape(since), ""),
			api("GET", "/v1/history?prefix={prefix}", "")},
		{"lookups of keys that never existed", http.StatusNotFound, api("GET", "/v1/notices/{prefix}:never:x:{i}", ""), get},
		{"batches of unknown members", http.StatusMultiStatus, api("POST", "/v1/notices/batch", unknown), batch},
		{"restores of unknown members", http.StatusMultiStatus, api("POST", "/v1/notices/restore", unknown), batch},
		{"erasures of keys that never existed", http.StatusOK, api("DELETE", "/v1/history?key={prefix}:never:x:{i}", ""),
			api("GET", "/v1/history?key={own}", "")},
		{"send-tests", http.StatusOK, func(ctx context.Context, m *tenant, _ int) (int, error) {
			status, _, _, err := h.page(ctx, m, m.session, "/ui/notices/"+m.notice()+"/test", url.Values{"csrf": {m.csrf}})
			return status, err
		}, look},
		{"wrong tokens", http.StatusUnauthorized, func(ctx context.Context, m *tenant, i int) (int, error) {
			return h.send(ctx, m, fmt.Sprintf("wrong-token-%d-%d-0123456789012345678", m.n, i), "GET", "/v1/notices", "")
		}, get},
		{"sign-ins with wrong tokens", http.StatusUnauthorized, func(ctx context.Context, m *tenant, i int) (int, error) {
			status, _, _, err := h.page(ctx, m, nil, "/ui/sign-in",
				url.Values{"token": {fmt.Sprintf("wrong-token-%d-%d-0123456789012345678", m.n, i)}})
			return status, err
		}, look},
		{"replays under guessed ids", http.StatusUnprocessableEntity, api("POST", "/v1/replays", `{"id":"guessed-{i}","since":"`+since+
			`","prefix":"{prefix}:never"}`), get},
		{"urls of listed hosts by other ports", http.StatusUnprocessableEntity,
			api("POST", "/v1/notices", `{"key":"{prefix}:a:b:in-{i}","delay":"1h","url":"http://shop.example:6379/"}`), schedule},
	}
}

// linkStep and pageStep are added to the status of a step before the sign-out, so that each
// step is counted separately.
const linkStep, pageStep = 1000, 2000

// signOutByLink opens a link, and ends the session that it gives.
func (h *neighbourhood) signOutByLink(ctx context.Context, m *tenant, _ int) (int, error) {
	status, _, cookies, err := h.page(ctx, m, nil, m.link, nil)
	if err != nil || status != http.StatusSeeOther || len(cookies) == 0 {
		return linkStep + status, err
	}
	status, _, cookies, err = h.page(ctx, m, cookies[0], "/ui/opened", nil)
	cookies = slices.DeleteFunc(cookies, func(c *http.Cookie) bool { return c.MaxAge < 0 })
	if err != nil || status != http.StatusSeeOther || len(cookies) == 0 {
		return linkStep + status, err
	}
	status, body, _, err := h.page(ctx, m, cookies[0], "/ui/notices", nil)
	found := csrfOf.FindStringSubmatch(body)
	if err != nil || found == nil {
		return pageStep + status, err
	}
	status, _, _, err = h.page(ctx, m, cookies[0], "/ui/sign-out", url.Values{"csrf": {found[1]}})
	return status, err
}

// send makes a call of the API.
func (h *neighbourhood) send(ctx context.Context, m *tenant, token, method, path, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := m.web.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// unfinished holds connections on which a batch never ends, and replaces those that the
// service closes.
func (h *neighbourhood) unfinished(ctx context.Context, m *tenant) {
	const part = 3 << 20
	text := bytes.Repeat([]byte(" "), part)
	for ctx.Err() == nil {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			return
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		_, err = fmt.Fprintf(c,
			"POST /v1/notices/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
			m.token, 5<<20)
		if err == nil {
			_, _ = c.Write(text) // the service may refuse it before it has read so much
		}
		status := 0
		if res, err := io.ReadAll(io.LimitReader(c, 12)); err == nil && len(res) == 12 {
			_, _ = fmt.Sscanf(string(res), "HTTP/1.1 %d", &status)
		}
		stop()
		_ = c.Close()
		if ctx.Err() == nil {
			h.count("unfinished batches", status, nil)
			select { // as often as a client that retries
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func (h *neighbourhood) count(name string, status int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.failed[name]++
		return
	}
	if h.answered[name] == nil {
		h.answered[name] = map[int]int{}
	}
	h.answered[name][status]++
}

// storm makes the calls of the ten tenants until ctx ends.
func (h *neighbourhood) storm(ctx context.Context, hostile bool) {
	var all sync.WaitGroup
	list, rate := h.attacks(), hostileRate
	if !hostile {
		rate = tenantRate - 1 // none is refused
	}
	for _, m := range h.members {
		if hostile {
			for range 3 {
				all.Go(func() { h.unfinished(ctx, m) })
			}
		}
		all.Go(func() {
			slots := make(chan struct{}, 8)
			tick := time.NewTicker(time.Second / time.Duration(rate))
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				select {
				case slots <- struct{}{}:
				default:
					continue // as many calls as it may make are in flight
				}
				a := list[(i+m.n)%len(list)]
				all.Go(func() {
					defer func() { <-slots }()
					call := a.do
					if !hostile {
						call = a.honest
					}
					status, err := call(ctx, m, i)
					if ctx.Err() == nil {
						h.count(a.name, status, err)
					}
				})
			}
		})
	}
	all.Wait()
}

// measured is the service quality for the honest tenant.
type measured struct{ schedule, lateness spread }

// honest schedules and cancels at its rate, and checks that nothing is refused or missing.
func (h *neighbourhood) honest(hostile bool) measured {
	t := h.t
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	storm.Go(func() { h.storm(ctx, hostile) })
	defer storm.Wait()
	defer end()
	web := &http.Client{Timeout: waitTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer web.CloseIdleConnections()
	call := func(method, path, body string) int {
		req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Authorization", "Bearer "+honestToken)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := web.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}

	const every, warm = 20, 400 // each 20th notice is cancelled; the first two seconds are not measured
	total := int(honestFor/time.Second) * honestRate
	took := make([]time.Duration, total)
	var cancelled atomic.Int64
	var calls sync.WaitGroup
	tick := time.NewTicker(time.Second / honestRate)
	defer tick.Stop()
	for i := range total {
		<-tick.C
		calls.Go(func() {
			key, delay := fmt.Sprintf("honest:pay:x:%d", i), "1s"
			if i%every == 0 {
				delay = "1h"
			}
			from := time.Now()
			status := call("POST", "/v1/notices", fmt.Sprintf(`{"key":%q,"delay":%q,"body":{"n":%d}}`, key, delay, i))
			if took[i] = time.Since(from); status != http.StatusCreated {
				t.Errorf("%s: scheduled with %d", key, status)
			}
			if i%every == 0 {
				if status := call("DELETE", "/v1/notices/"+key, ""); status != http.StatusOK {
					t.Errorf("%s: cancelled with %d", key, status)
				}
				cancelled.Add(1)
			}
		})
	}
	calls.Wait()
	delivered := total - int(cancelled.Load())
	h.pay.wait(waitTimeout, delivered)
	h.pay.once(delivered)
	var late []time.Duration
	for _, x := range h.pay.all() {
		var n int
		if _, err := fmt.Sscanf(x.key, "honest:pay:x:%d", &n); err == nil && n >= warm {
			late = append(late, x.late())
		}
	}
	end()
	storm.Wait()
	h.complete(total, int(cancelled.Load()))
	return measured{schedule: spreadOf(took[warm:]), lateness: spreadOf(late)}
}

// complete checks that the honest tenant's audit and history miss nothing.
func (h *neighbourhood) complete(total, cancelled int) {
	t := h.t
	t.Helper()
	seen := map[string]string{} // outcome by key
	await(t, waitTimeout, "the history has all notices", func() bool {
		clear(seen)
		h.pages("/v1/history?prefix=honest&limit=1000", func(raw json.RawMessage) {
			var x struct{ Key, Outcome string }
			if err := json.Unmarshal(raw, &x); err != nil {
				t.Fatal(err)
			}
			seen[x.Key] = x.Outcome
		})
		return len(seen) >= total
	})
	outcomes := map[string]int{}
	for _, o := range seen {
		outcomes[o]++
	}
	if want := map[string]int{"delivered": total - cancelled, "cancelled": cancelled}; !maps.Equal(outcomes, want) {
		t.Errorf("the history has %v, want %v", outcomes, want)
	}
	entries := 0
	h.pages("/v1/audit?limit=1000", func(raw json.RawMessage) {
		x := struct {
			Client, Action string
			Count          int
		}{Count: 1}
		if err := json.Unmarshal(raw, &x); err != nil {
			t.Fatal(err)
		}
		if x.Client != "honest" {
			t.Errorf("the audit shows an entry of %s", x.Client)
		}
		if x.Action == "cancel" {
			entries += x.Count
		}
	})
	if entries != cancelled {
		t.Errorf("the audit has %d cancellations, want %d", entries, cancelled)
	}
}

// pages reads all pages of a listing of the honest tenant.
func (h *neighbourhood) pages(path string, item func(json.RawMessage)) {
	h.t.Helper()
	for cursor := ""; ; {
		a := h.must(honestToken, "GET", path+"&cursor="+url.QueryEscape(cursor), "")
		var page struct {
			Items  []json.RawMessage
			Cursor string
		}
		if err := json.Unmarshal([]byte(a.body), &page); a.status != http.StatusOK || err != nil {
			h.t.Fatalf("%s: %d, %v: %.300s", path, a.status, err, a.body)
		}
		for _, x := range page.Items {
			item(x)
		}
		if cursor = page.Cursor; cursor == "" {
			return
		}
	}
}

// Ten tenants attack at four times their admitted rate, with calls that once slowed others,
// filled the memory, or pushed other entries out of the audit. An honest tenant is compared
// with the same tenant next to honest calls of the ten, at the admitted rate. The attacks
// need twice the processor time of honest calls, so the ratio of the p99 depends on the load
// of the machine. The aim is 1.5, and the test fails only above 10.
func TestHostileTenantsHarmNoHonestTenant(t *testing.T) {
	const pairs, aim, most = 3, 1.5, 10
	var schedule, lateness []float64
	for pair := range pairs {
		got := map[bool]measured{}
		for _, hostile := range []bool{pair%2 == 1, pair%2 == 0} {
			t.Run(fmt.Sprintf("pair %d, hostile %v", pair+1, hostile), func(t *testing.T) {
				h := settle(t)
				from := h.ticks()
				got[hostile] = h.honest(hostile)
				most := h.memory("VmHWM")
				t.Logf("schedule %s; lateness %s; RSS %d MiB at most; %s of CPU", got[hostile].schedule, got[hostile].lateness, most, h.ticks()-from)
				if most >= shippedLimit && !raceEnabled {
					t.Errorf("RSS %d MiB, the shipped limit is %d", most, shippedLimit)
				}
				h.judge(hostile)
			})
		}
		if t.Failed() {
			return
		}
		quiet, loud := got[false], got[true]
		schedule = append(schedule, ratio(loud.schedule.p99, quiet.schedule.p99))
		lateness = append(lateness, ratio(loud.lateness.p99, quiet.lateness.p99))
	}
	slices.Sort(schedule)
	slices.Sort(lateness)
	t.Logf("p99 beside attacks, to that beside honest calls: schedule %.2f, lateness %.2f", schedule, lateness)
	for name, list := range map[string][]float64{"schedule": schedule, "lateness": lateness} {
		if median := list[pairs/2]; median > most {
			t.Errorf("the honest tenant's p99 of %s is %.2f times that beside honest calls, aim %.1f", name, median, aim)
		}
	}
}

// ratio compares two p99. Differences of less than 5 ms are those of this machine.
func ratio(loud, quiet time.Duration) float64 {
	if loud-quiet < 5*time.Millisecond {
		return min(1, float64(loud)/float64(quiet))
	}
	return float64(loud) / float64(quiet)
}

// judge checks how the calls of the ten were answered.
func (h *neighbourhood) judge(hostile bool) {
	t := h.t
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(h.answered)) {
		t.Logf("%s: %v, %d failed", name, h.answered[name], h.failed[name])
	}
	for name, answers := range h.answered {
		for status, n := range answers {
			if status%1000 >= 500 {
				t.Errorf("%s: %d answers %d", name, n, status)
			}
			if !hostile && status != http.StatusOK && status != http.StatusCreated {
				t.Errorf("%s: %d answers %d to honest calls", name, n, status)
			}
		}
	}
	if !hostile {
		return
	}
	if h.answered["unfinished batches"][http.StatusTooManyRequests] == 0 {
		t.Errorf("no unfinished batch was refused: %v", h.answered["unfinished batches"])
	}
	for _, a := range h.attacks() { // otherwise it tried nothing
		if h.answered[a.name][a.hits] == 0 {
			t.Errorf("%s: none was answered with %d: %v", a.name, a.hits, h.answered[a.name])
		}
	}
}

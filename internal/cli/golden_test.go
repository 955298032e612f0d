package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// session records command lines with their exit codes and their output, to compare them with a file of testdata.
type session struct {
	*testCLI
	text strings.Builder
}

// run runs the words of a line, then arguments with spaces.
func (s *session) run(want int, line string, more ...string) (stdout, stderr string) {
	s.t.Helper()
	args := append(strings.Fields(line), more...)
	stdout, stderr = s.testCLI.run(want, args...)
	fmt.Fprintf(&s.text, "$ notifier %s\n", strings.Join(args, " "))
	if want != 0 {
		fmt.Fprintf(&s.text, "exit %d\n", want)
	}
	s.text.WriteString(stdout + stderr)
	return stdout, stderr
}

// all runs several lines.
func (s *session) all(want int, lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		s.run(want, line)
	}
}

// stop adds a stopped job to the store.
func (s *session) stop(j *jobs.Job) {
	s.t.Helper()
	j.State, j.Made, j.Changed = jobs.Stopped, time.Now(), time.Now()
	if err := (jobs.Store{Store: s.engine.Store()}).Add(s.t.Context(), j, jobs.MaxJobs); err != nil {
		s.t.Fatal(err)
	}
}

// same compares the session with a file of testdata.
func (s *session) same(name string) {
	s.t.Helper()
	testkit.Golden(s.t, name, masked(s.text.String()))
}

var masks = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`(msg|job|rdr)_[0-9A-Za-z]{16,}`), "${1}_ID"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+/ui/portal/[^"\s]+`), "LINK"},
	{regexp.MustCompile(`\b[A-Z2-7]{16}\b`), "ID"},
	{regexp.MustCompile(` +`), " "}, // the width of columns
	{regexp.MustCompile(`(?m) $`), ""},
}

// masked replaces ids, and times of this century, which differ from run to run.
func masked(text string) string {
	for _, m := range masks {
		text = m.what.ReplaceAllString(text, m.by)
	}
	return text
}

func TestNoticeCommands(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	const key, trimmed = "app1:jobs:t:1", "app1:jobs:t:trimmed"
	for range 2 {
		s.run(0, "schedule "+key+" --delay 1h --header x-a=1 --retry 1s,2s --body", `{"a" : 1}`)
	}
	s.run(0, "schedule "+trimmed)
	s.engine.Trim(trimmed)
	s.run(0, "schedule "+trimmed)
	s.run(0, "schedule "+trimmed+" --json")
	s.run(1, "schedule "+key+" --body-text other")
	s.run(0, "get "+key)
	s.run(0, "get "+key+" --json")
	due := time.Now().UTC().AddDate(1, 0, 0).Format("2006-01-02T15:04:05")
	out, _ := s.run(0, "reschedule "+key+" --due "+due+"Z")
	contains(t, out, "due "+due+".000Z")
	s.run(0, "fire "+key)
	id := s.engine.Hand(key)
	s.run(2, "defer "+key+" --attempt 1")
	s.run(1, "defer "+key+" --attempt 1 --id msg_another")
	s.run(0, "defer "+key+" --attempt 1 --after 5s --id "+id)
	s.engine.Hand(key)
	for range 2 {
		s.run(0, "nack "+key+" --attempt 1 --permanent --id "+id+" --response", "no \x1b[2Jstock")
	}
	for _, line := range []string{"get " + key, "list --state dead --since 1h", "search state=dead route=jobs",
		"search state=dead route=jobs --json", "search state=dead route=jobs --csv", "dead --since 1h", "dead --reason dns",
		"redrive --route jobs --dry-run", "redrive --route jobs --json"} {
		s.run(0, line)
	}
	s.run(2, "search")
	s.run(2, "dead --reason nonsense")
	s.engine.Move(key, notice.Dead, notice.ReasonDNS)
	s.run(0, "redrive "+key)
	s.engine.Move(key, notice.Claimed, "")
	s.run(0, "cancel "+key)
	s.run(0, "cancel "+key)
	s.run(1, "fire "+key+" app1:jobs:t:none")
	s.run(0, "pause jobs")
	s.run(0, "stats")
	s.run(0, "resume jobs")
	s.run(1, "ack "+key+" --attempt 9 --id "+id)
	s.same("notices.txt")
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	for _, line := range []string{"shedule x", "schedule", "schedule k --dely 1s", "schedule k --url http://x/",
		"schedule k --delay 1s --due 2100-01-01T00:00:00Z", "schedule k --due x", "schedule k --delay x", "list --since x", "schedule k --body {",
		"schedule k --header x", "redrive", "redrive k --route r", "reschedule k", "ack k", "import /nonexistent/file", "bench --prefix a:b",
		"get k --api localhost:8080", "receive --status 200", "receive --secret-file /nonesuch", "receive --then 500x0", "receive --then 500,99",
		"receive --then 500 --fail 1", "receive --fail -1", "receive --key-file /nonesuch", "receive --key-set http://shop.example/jwks.json",
		"receive --sign-header x", "receive --sign jws", "demo --notices 0", "serve --embeded", "instances more"} {
		s.run(2, line)
	}
	s.env = nil
	s.run(2, "serve")
	s.env = []string{"NOTIFIER_SHARDS=x", "NOTIFIER_GRACE=never"}
	for _, command := range []string{"serve", "routes"} {
		s.run(2, command)
	}
	s.same("usage.txt")
}

func TestRecurCommand(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	const key, other = "app1:orders:daily:books", "app1:orders:daily:poll"
	create := "recur create " + key + " --zone Asia/Shanghai --body @testdata/body.json --to https://shop.example/x" +
		" --from 2100-01-01T00:00:00Z --cron"
	out, _ := s.run(0, create, "0 2 * * *", "--dry-run")
	contains(t, out, "T18:00:00Z", "02:00:00 Asia/Shanghai")
	if n := strings.Count(out, "next "); n != 5 {
		t.Errorf("%d ticks: %s", n, out)
	}
	s.run(1, "recur show "+key)
	for range 2 {
		s.run(0, create, "0 2 * * *")
	}
	for _, line := range []string{"recur list --prefix app1", "recur show " + key + " --json", "recur pause " + key, "recur next " + key,
		"recur run " + key, "get " + key + "~1", "recur resume " + key, "recur delete " + key} {
		s.run(0, line)
	}
	s.run(1, "recur delete "+key)
	s.run(1, "recur run "+key)
	out, _ = s.run(0, "recur create "+other+" --every 15m --anchor 2026-12-01T00:07:00Z --body-text x --to https://shop.example/x")
	contains(t, out, ":07:00Z", ":22:00Z")
	for _, bad := range []string{"create", "create " + key, "create " + key + " --cron @daily --every 1h",
		"create " + key + " --every 1h --body {", "create " + key + " --every 1h --body @/none", "create " + key + "~1 --every 1h",
		"create " + key + " --cron @daily --zone Nowhere --to https://shop.example/x", "show", "next " + key + " " + key} {
		s.run(2, "recur "+bad)
	}
	s.run(2, "recur create "+key+" --to https://shop.example/x --cron", "61 * * * *")
	s.same("recur.txt")
}

func TestResendAndPurge(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	const key = "app1:jobs:t:1"
	s.run(0, "schedule "+key+" --delay 1h")
	s.run(1, "resend "+key)
	s.engine.Move(key, notice.Dead, notice.ReasonDNS)
	s.run(0, "resend "+key)
	s.run(0, "resend "+key)
	s.engine.Move(key, notice.Dead, notice.ReasonDNS)
	s.run(0, "purge --route jobs --dry-run")
	s.run(0, "purge --route jobs --json")
	s.run(2, "purge")
	s.same("resend.txt")
}

func TestPortalLinkCommand(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	_, errs := s.run(0, "portal-link app1:jobs --host shop.example --ttl 8h")
	s.run(0, "portal-link app1:jobs")
	id := strings.Fields(errs[strings.Index(errs, "--revoke ")+len("--revoke "):])[0]
	s.run(0, "audit")
	s.run(0, "portal-link --revoke "+id)
	s.run(1, "portal-link --revoke "+id)
	s.run(0, "portal-link --prefix app1 --audience m17 --json")
	s.run(0, "portal-link app1 --host shop.example --resend --json --label", "Shop Blue")
	s.run(2, "portal-link app1 --label", "Shop\tBlue")
	for _, wrong := range []string{"", "a b", "a --revoke x", "--revoke x --host y", "a --ttl soon", "a --resend", "a --audience m17 --resend",
		"a --ttl 1s", "a:b:c:d", "app1 --prefix app1:jobs"} {
		s.run(2, "portal-link "+wrong)
	}
	s.same("portallink.txt")
}

func TestReceiverCommands(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	s.engine.Tell(fleet.Figures{Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "busy.example:443", InFlight: 3, Breaker: "open"}}})
	out, _ := s.run(0, "pause --audience m17 --until 2030-01-01T00:00:00Z --prefix app1")
	contains(t, out, "until 2030-01-01T00:00:00.000Z\n")
	s.all(0, "pause --host shop.example",
		"limit --host a.example --rate 300/m", "limit --host a.example --concurrency 2",
		"limit --host a.example --rate 5/s --concurrency 2 --json",
		"resume --host a.example --audience m17", "resume --audience m17")
	s.all(2, "limit", "limit --host a/b", "limit --host a.example --rate fast", "pause", "pause jobs --host a.example",
		"pause --audience m17 --over 1h", "resume --audience a/b", "receivers --host a/b", "receivers --state broken")
	s.all(1, "pause none", "receivers --route none")
	s.all(0, "receivers", "receivers --limit 3 --all", "receivers --state limited --contains EXAMPLE", "receivers --host a.example --json",
		"resume --host shop.example --over 30m", "resume --host shop.example", "resume --audience m17 --prefix app1", "limit --host a.example",
		"receivers")
	s.same("receivers.txt")
}

func TestReceiversShowThatThereAreMore(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	for _, host := range []string{"a.example", "b.example"} {
		d.run(0, "pause", "--host", host)
	}
	out, errs := d.run(0, "receivers", "--limit", "1")
	if contains(t, errs, "there are more: --cursor "); strings.Contains(out, "b.example") {
		t.Errorf("more than one: %s", out)
	}
}

func TestRedirectCommand(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	s.all(0, "schedule app1:orders:t:1 --delay 1h --to https://old.example/hooks/1?secret=1",
		"redirect https://old.example/hooks https://new.example/in --dry-run")
	out, _ := s.run(0, "redirect https://new.example --host old.example")
	id, _, _ := strings.Cut(out, ":")
	s.all(0, "redirect", "redirect "+id+" --json")
	s.run(1, "redirect "+id+" --stop")
	s.run(0, "get app1:orders:t:1")
	s.stop(&jobs.Job{ID: "rdr_stopped", Rule: jobs.Rule{From: "https://a.example", To: "https://b.example"}})
	s.all(0, "redirect rdr_stopped", "redirect rdr_stopped --resume")
	for _, bad := range []string{"a b c", "--stop", "--dry-run", "rdr_x --dry-run", "a b --stop", "https://a.example https://a.example/"} {
		s.run(2, "redirect "+bad)
	}
	s.same("redirect.txt")
}

func TestCancelOfManyIsAJob(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	for _, n := range "123" {
		s.run(0, "schedule app1:orders:t:"+string(n)+" --delay 1h --to https://shop.example/hook")
	}
	s.run(0, "cancel --prefix app1:orders --host shop.example --dry-run")
	s.stdin = "n\n"
	s.run(2, "cancel --prefix app1:orders")
	s.stdin = "yes\n"
	out, _ := s.run(0, "cancel --prefix app1:orders --host shop.example --rate 1000/s")
	id, _, _ := strings.Cut(out, ":")
	s.all(0, "jobs", "jobs "+id+" --json")
	s.run(1, "jobs "+id+" --stop")
	s.all(0, "get app1:orders:t:1", "redrive --route orders --job", "purge --route orders --job --dry-run")
	s.stop(&jobs.Job{ID: "job_stopped", Kind: jobs.KindCancel, Rule: jobs.Rule{Prefix: "app1:none"}})
	s.all(0, "jobs job_stopped", "jobs job_stopped --resume")
	s.all(2, "cancel", "cancel --host x", "cancel app1:orders:t:1 --prefix app1", "cancel app1:orders:t:1 --yes",
		"cancel --prefix app1 --rate fast --yes", "jobs --stop", "jobs job_stopped --stop --resume")
	s.same("jobs.txt")
}

func TestRoutesCommand(t *testing.T) {
	t.Parallel()
	s := &session{testCLI: newTestCLI(t)}
	s.env = environ
	s.all(0, "routes", "routes orders", "routes orders --json")
	s.run(2, "routes nosuch")
	const orders, jobsVar, more = "NOTIFIER_ROUTE_ORDERS_", "NOTIFIER_ROUTE_JOBS_", "NOTIFIER_ROUTE_MORE_"
	s.env = []string{"NOTIFIER_ROUTES=orders,jobs", orders + "PREFIX=app1:orders", orders + "TARGET=notice", orders + "JITTER=0.1",
		orders + "SIGN=standard,github", orders + "SECRET=" + secret + "," + secret[:len(secret)-4] + "QUJD",
		jobsVar + "PREFIX=app1:jobs", jobsVar + "TARGET=log", jobsVar + "RETRY=1s"}
	s.all(0, "routes jobs orders", "routes orders --json")
	s.env = nil
	s.run(2, "routes")
	s.env = append([]string{"NOTIFIER_ROUTES=orders,more", more + "PREFIX=app1:orders", more + "TARGET=log"}, environ[1:]...)
	s.run(2, "routes")
	s.same("routes.txt")
}

package sim

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// mutations are scripts with one wrong line, which the simulator must find.
var mutations = slices.Concat(noticeMutations, sequenceMutations, deathMutations, expiryMutations)

var noticeMutations = []mutation{
	{"a claim does not return the number of expired leases",
		"answer = text .. ' ' .. expired .. ' ' .. ends[wins]", "answer = text .. ' 0 ' .. ends[wins]", ""},
	{"a report names the attempt only", "local ours = holders[n] == ARGV[i]",
		"local ours = holders[n] and string.gsub(holders[n], '^report:%d+', '') == string.gsub(ARGV[i], '^report:%d+', '')", ""},
	{"a late nack opens another notice", "before == 'delivered' and record == ARGV[i + 3]", "before == 'delivered'", ""},
	{"a resend accepts an outdated ending", "op == 'resend' and (before == 'delivered' or before == 'dead') and record == ARGV[i + 3]",
		"op == 'resend' and (before == 'delivered' or before == 'dead')", ""},
	{"a resend does not check for a producer's timer", "and not (ARGV[4] == '2' and redis.pcall('EXISTS', key) == 1) then", "then", adoption},
	{"settled notices are trimmed too early", "'-inf', format('%.0f', now - tonumber(ARGV[1]))", "'-inf', '+inf'", ""},
	{"a schedule does not search other prefixes for the key", "for k = 5, #KEYS - 1, 4 do\n  local there",
		"for k = 5, 0, 4 do\n  local there", moves},
	{"a replace leaves the notice under another prefix", "call('HDEL', names[k + 1], key) call('ZREM', names[k], key)", "", moves},
	{"an instance with outdated routes is not refused", "if redis.call('HGET', KEYS[#KEYS], 'state') ~= '", "if false and '' ~= '", moves},
	{"a body is filled in over a claim", "score and\n    redis.call('EXISTS', ARGV[1] .. key) == 0 then", "score then", adoption},
	{"a timer with another payload is skipped", "same = body == '\"json\":' .. value .. '}' or", "same = true or", adoption},
	{"a comparison skips missing timers", "if left < 0 or ARGV[1] == 'd'", "if ARGV[1] == 'd'", adoption},
	{"the entry of a replaced notice has the wrong prefix", "key, record, k > 1 and names[k])", "key, record)", moves},
	{"outbox entries are removed that the database does not have", "redis.call('LINDEX', KEYS[1], n - 1) == ARGV[4]", "true", moves},
	{"two instances hold the outbox", "if had[1] and had[1] ~= ARGV[1] and", "if false and", moves},
	{"an item of a replay is done twice", "if number > last then", "if true then", moves},
	{"an instance that missed a reshard is not refused", "if redis.call('HGET', KEYS[#KEYS], 'state') ~= '", "if false and '' ~= '", reshards},
	{"two concurrent reshards are both announced", "if stored ~= ARGV[1] then return 0 end", "", reshards},
	{"a notice in an old shard is not found", "if there[i] then reply[i] = k - 1 end", "", reshards},
	{"an exported notice is not found", "reply[i] = away[i] and -1 or 0 end", "reply[i] = 0 end", reshards},
	{"a batch is imported twice", "if tonumber(number) >= tonumber(ARGV[2]) then¦if #KEYS == 6 and match(¦if same then\n      put = false",
		"if false then¦if false and match(¦if far and same then\n      put = false", steady},
	{"a dead letter is lost in an import", "if score ~= '-' then\n        local z", "if score ~= '-' and j ~= 2 then\n        local z",
		reshards},
	{"a batch is imported whose export Redis has lost", "if #KEYS == 6 and match(", "if false and match(", reshards},
	{"a settled notice is imported without the score's fraction",
		"z[#z + 1] = score", "z[#z + 1] = j == 3 and math.floor(score) or score", reshards},
}

// recorder replaces a test that must fail.
type recorder struct {
	testing.TB // for its name
	failed     bool
	lines      []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(args ...any)           { r.lines = append(r.lines, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, a ...any)   { r.lines = append(r.lines, fmt.Sprintf(f, a...)) }
func (r *recorder) Error(args ...any)         { r.Log(args...); r.failed = true }
func (r *recorder) Errorf(f string, a ...any) { r.Logf(f, a...); r.failed = true }
func (r *recorder) Fatal(args ...any)         { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }
func (r *recorder) Fail()                     { r.failed = true }
func (r *recorder) FailNow()                  { r.failed = true; runtime.Goexit() }
func (r *recorder) Failed() bool              { return r.failed }

// story returns the log of the shortest failing run, which is the last one.
func (r *recorder) story() string {
	var lines []string
	for _, line := range r.lines {
		if strings.HasPrefix(line, "[rapid] ") {
			if !strings.HasPrefix(line, "[rapid] draw ") {
				lines = nil
			}
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n\t")
}

// TestSimulatorFindsMutants fails if the simulator passes with a mutant.
func TestSimulatorFindsMutants(t *testing.T) {
	most := *withinFlag
	for _, m := range mutations[min(*firstFlag, len(mutations)):min(*firstFlag+*mutants, len(mutations))] {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			k := cmp.Or(m.kind, onePrefix)
			if k == steady {
				k = reshards
			}
			l := newLab(t, k, m)
			l.steady = m.kind == steady
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				l.check(r, 1, most, *shrinkFlag)
			}()
			<-done
			switch {
			case !l.wire.changed:
				t.Fatalf("no script has the line %q", m.old)
			case !r.failed:
				t.Fatalf("not found in %d steps", l.steps)
			}
			summarize(&summary.mutants, "| %s | %d | %d |", m.name, l.failedAt, strings.Count(r.story(), "\n")+1)
			t.Logf("found in %d steps, shrunk to:\n\t%s", l.failedAt, r.story())
		})
	}
}

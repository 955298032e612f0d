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
	{"a claim is set over another", "token, 'NX', 'PX', lease)", "token, 'PX', lease)", ""},
	{"a settle does not check the token", "local ours = holders[n] == ARGV[i]", "local ours = true", ""},
	{"timers expire at the due time", "local at = due - 1", "local at = due", ""},
	{"a claim does not check that the notice is due", "if score and (early or floor(score) <= now) and call('SET'",
		"if score and call('SET'", ""},
	{"a claim does not change the score", "if moved > 0 then call('ZADD', KEYS[1], unpack(moves)) end", "", ""},
	{"a claim does not return the number of expired leases",
		"answer = text .. ' ' .. expired .. ' ' .. ends[wins]", "answer = text .. ' 0 ' .. ends[wins]", ""},
	{"a claim that meets its own token is lost", "elseif score and expired > 0 and call('GET', prefix .. key) == token then",
		"elseif false then", ""},
	{"a recovery returns another call's claims", "call('GET', prefix .. near[i]) == token", "call('GET', prefix .. near[i])", ""},
	{"a take-over takes claims of live instances", "string.sub(holder, 1, #start) == start", "true", ""},
	{"a take-over keeps the old token", "call('SET', claims[j], token, 'PX', lease)", "", ""},
	{"a settle without a claim does not check the score",
		"if at and (tonumber(at) == tonumber(score) or tonumber(at) == tonumber(before)) then", "if at then", ""},
	{"a settle without a claim does not check the generation", "return record and generation ~= '0' and made(record) == tonumber(generation)",
		"return record", ""},
	{"a retry does not go back into the shadow", "if #moved > 0 then call('ZADD', KEYS[1], unpack(moved)) end", "", ""},
	{"a delivered notice stays in the shadow", "if ends > 0 then call('ZREM', KEYS[1], unpack(done)) end", "", ""},
	{"a settle leaves the claim", "if drops > 0 then call('DEL', unpack(drop)) end", "", ""},
	{"a replace leaves the old notice's claim", "call('DEL', claim .. key) unhold(", "unhold(", ""},
	{"a replace gives the new notice the old one's generation", "return score, successor(record)", "return score, made(record)", ""},
	{"a duplicate replaces the existing notice", "if old and byte(when) ~= 112 then", "if old and byte(when) == 107 then", ""},
	{"a cancel leaves the claim", "redis.call('DEL', ARGV[1] .. key) if ARGV[5]", "if ARGV[5]", ""},
	{"a cancel leaves the timer", "disarm(ARGV[4], key, own)\n    if hand", "if hand", ""},
	{"a reschedule changes a claimed notice", "(op == 'reschedule' or op == 'fire') and before == 'scheduled'",
		"(op == 'reschedule' or op == 'fire') and own", ""},
	{"a report names the attempt only", "local ours = holders[n] == ARGV[i]",
		"local ours = holders[n] and string.gsub(holders[n], '^report:%d+', '') == string.gsub(ARGV[i], '^report:%d+', '')", ""},
	{"a late nack opens another notice", "before == 'delivered' and record == ARGV[i + 3]", "before == 'delivered'", ""},
	{"a resend accepts an outdated ending", "op == 'resend' and (before == 'delivered' or before == 'dead') and record == ARGV[i + 3]",
		"op == 'resend' and (before == 'delivered' or before == 'dead')", ""},
	{"a resend accepts a notice in flight", "op == 'resend' and (before == 'delivered' or before == 'dead')",
		"op == 'resend' and (before == 'delivered' or before == 'dead' or before == 'claimed')", ""},
	{"a resend accepts a cancelled notice", "op == 'resend' and (before == 'delivered' or before == 'dead')",
		"op == 'resend' and before ~= 'scheduled' and before ~= 'claimed'", ""},
	{"a resend keeps the record that was read", "done = schedule(key, when, ARGV[i + 2])\n    if done == 1 then\n",
		"done = schedule(key, when, ARGV[i + 3])\n    if done == 1 then\n", ""},
	{"a resent notice stays among the dead letters", "if done == 1 then\n      redis.call('ZREM', KEYS[3], key)\n",
		"if done == 1 then\n", ""},
	{"a resend does not check for a producer's timer", "and not (ARGV[4] == '2' and redis.pcall('EXISTS', key) == 1) then", "then", adoption},
	{"settled notices are trimmed too early", "'-inf', format('%.0f', now - tonumber(ARGV[1]))", "'-inf', '+inf'", ""},
	{"a move takes claimed notices", "if redis.call('EXISTS', ARGV[1] .. key) == 0 then\n    local record, other",
		"if true then\n    local record, other", moves},
	{"a move drops the score's fraction", "redis.call('ZADD', KEYS[4 + z], score, key)",
		"redis.call('ZADD', KEYS[4 + z], math.floor(score), key)", moves},
	{"a move leaves the record", "redis.call('HDEL', KEYS[2], key)\n        if op", "if op", moves},
	{"a schedule does not search other prefixes for the key", "for k = 5, #KEYS - 1, 4 do\n  local there",
		"for k = 5, 0, 4 do\n  local there", moves},
	{"a replace leaves the notice under another prefix", "call('HDEL', names[k + 1], key) call('ZREM', names[k], key)", "", moves},
	{"an instance with outdated routes is not refused", "if redis.call('HGET', KEYS[#KEYS], 'state') ~= '", "if false and '' ~= '", moves},
	{"an adoption does not check the timer again", "if ARGV[4] ~= '0' then\n    local size", "if false then\n    local size", adoption},
	{"an adoption does not check which notice it replaces", "local ok, filled = (score or '') == seen and made(old) == generation, false",
		"local ok, filled = true, false", adoption},
	{"an adoption leaves the old notice's claim", "call('DEL', claim .. key) unhold(", "unhold(", adoption},
	{"an adopted notice is due before its timer has expired", "local due = expire + 1", "local due = expire", adoption},
	{"a body is filled in over a claim", "score and\n    redis.call('EXISTS', ARGV[1] .. key) == 0 then", "score then", adoption},
	{"a body that came late is not filled in", "ok, filled = true, true", "ok, filled = false, false", adoption},
	{"a timer with another payload is skipped", "same = body == '\"json\":' .. value .. '}' or", "same = true or", adoption},
	{"a retry overwrites the producer's timer", "redis.pcall('SET', key, value, 'NX', 'PXAT', at)",
		"redis.pcall('SET', key, value, 'PXAT', at)", adoption},
	{"a fire deletes the producer's timer", "return at == due - 1 end", "return at > 0 end", adoption},
	{"a comparison skips missing timers", "if left < 0 or ARGV[1] == 'd'", "if ARGV[1] == 'd'", adoption},
	{"a settle adds no entry to the outbox", "if hand then hand(op, key, record) end", "", moves},
	{"a replaced notice that was finalized gets a second entry", "if hand and ended == 0 then hand(", "if hand then hand(", moves},
	{"the entry of a replaced notice has the wrong prefix", "key, record, k > 1 and names[k])", "key, record)", moves},
	{"outbox entries are removed that the database does not have", "redis.call('LINDEX', KEYS[1], n - 1) == ARGV[4]", "true", moves},
	{"two instances hold the outbox", "if had[1] and had[1] ~= ARGV[1] and", "if false and", moves},
	{"a restore replaces another notice", "if old then\n    reply", "if false then\n    reply", moves},
	{"a restored notice is due now", "if due < now then due = now end\n      local timed", "due = now\n      local timed", moves},
	{"the timer of a restored notice expires at the due time", "local at = due - 1", "local at = due", moves},
	{"an item of a replay is done twice", "if number > last then", "if true then", moves},
	{"a replay replaces a pending notice", "if call('ZSCORE', KEYS[k], key) then return 'pending' end", "", moves},
	{"a replay sends a notice that was cancelled since",
		"if settled and same and cancelled(settled) then return 'cancelled' end", "", moves},
	{"a replay leaves the finalized notice", "call('ZREM', KEYS[k + 3], key)\n          if q[g]", "if q[g]", moves},
	{"a replay's new webhook-ids are the old ones", "if ARGV[3] == '1' then generation =", "if false then generation =", moves},
	{"an erasure removes a pending notice", "if redis.call('ZSCORE', KEYS[1], key) then\n    pending", "if false then\n    pending", moves},
	{"an instance that missed a reshard is not refused", "if redis.call('HGET', KEYS[#KEYS], 'state') ~= '", "if false and '' ~= '", reshards},
	{"two concurrent reshards are both announced", "if stored ~= ARGV[1] then return 0 end", "", reshards},
	{"a notice in an old shard is not found", "if there[i] then reply[i] = k - 1 end", "", reshards},
	{"an exported notice is not found", "reply[i] = away[i] and -1 or 0 end", "reply[i] = 0 end", reshards},
	{"a claimed notice leaves an old shard", "elseif held_by[i] or leases(score) > 0 then", "elseif false then",
		reshards},
	{"a notice with an expired lease leaves an old shard", "elseif held_by[i] or leases(score) > 0 then",
		"elseif held_by[i] then", reshards},
	{"an exported notice stays in its old shard", "call('HDEL', KEYS[2], unpack(gone))", "", reshards},
	{"a batch is imported twice", "if tonumber(number) >= tonumber(ARGV[2]) then¦if #KEYS == 6 and match(¦if same then\n      put = false",
		"if false then¦if false and match(¦if far and same then\n      put = false", steady},
	{"the import of a batch is not recorded",
		"call('HSET', KEYS[#KEYS], from, ARGV[2] .. ' ' .. table.concat(reply, ' '))¦if #KEYS == 6 and match(¦if same then\n      put = false",
		"¦if false and match(¦if far and same then\n      put = false", steady},
	{"a dead letter is lost in an import", "if score ~= '-' then\n        local z", "if score ~= '-' and j ~= 2 then\n        local z",
		reshards},
	{"a batch has the number of a batch that Redis has lost", ", t[1] * 1000000 + t[2])", ")", reshards},
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

package sim

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// mutations are scripts with one wrong line. The simulator must find each.
var mutations = []mutation{
	{"a claim is set over another", "token, 'NX', 'PX', lease)", "token, 'PX', lease)", ""},
	{"a settle does not ask whose claim it is", "local ours = holders[n] == ARGV[i]", "local ours = true", ""},
	{"timers expire at the due time", "call('SET', key, '1', 'PXAT', due - 1)", "call('SET', key, '1', 'PXAT', due)", ""},
	{"a claim does not ask whether the notice is due", "if score and (early or floor(score) <= now) and call('SET'",
		"if score and call('SET'", ""},
	{"a claim leaves the score as it was", "if moved > 0 then call('ZADD', KEYS[1], unpack(moves)) end", "", ""},
	{"a claim does not tell of lapses", "answer = text .. ' ' .. lapses .. ' ' .. ends[wins]", "answer = text .. ' 0 ' .. ends[wins]", ""},
	{"a claim that meets its own token is lost", "elseif score and lapses > 0 and lapses < 500 and call('GET', prefix .. key) == token then",
		"elseif false then", ""},
	{"what is found again may be another's", "call('GET', prefix .. near[i]) == token", "call('GET', prefix .. near[i])", ""},
	{"a take-over takes from those that live", "string.sub(holder, 1, #whose) == whose", "true", ""},
	{"a take-over keeps the old token", "call('SET', claims[j], token, 'PX', lease)", "", ""},
	{"a settle without a claim does not look at the score",
		"if at and (tonumber(at) == tonumber(score) or tonumber(at) == tonumber(before)) then", "if at then", ""},
	{"a settle without a claim does not look which notice it is", `return record and string.find(record, '"made":' .. made .. '[,}]')`,
		"return record", ""},
	{"a retry does not go back into the shadow", "if #moved > 0 then call('ZADD', KEYS[1], unpack(moved)) end", "", ""},
	{"what is delivered stays in the shadow", "if ends > 0 then call('ZREM', KEYS[1], unpack(done)) end", "", ""},
	{"a settle leaves the claim", "if drops > 0 then call('DEL', unpack(drop)) end", "", ""},
	{"a replace leaves the old notice's claim", "call('DEL', ARGV[1] .. key)\n      local died", "local died", ""},
	{"a replace gives the new notice the old one's making",
		`format('%.0f', math.max(birth, (tonumber(string.match(old, '"made":(%d+)')) or 0) + 1))`, `string.match(old, '"made":(%d+)')`, ""},
	{"a duplicate replaces what is there", "if old and byte(when) ~= 112 then", "if old and byte(when) == 107 then", ""},
	{"a cancel leaves the claim", "redis.call('ZREM', KEYS[3], key)\n    redis.call('DEL', ARGV[1] .. key)",
		"redis.call('ZREM', KEYS[3], key)", ""},
	{"a cancel leaves the timer", "if ARGV[4] == '1' or ARGV[4] == '2' and own then redis.pcall('DEL', key) end", "", ""},
	{"a reschedule moves what is claimed", "(op == 'reschedule' or op == 'fire') and before == 'scheduled'",
		"(op == 'reschedule' or op == 'fire') and own", ""},
	{"a report names the attempt only", "local ours = holders[n] == ARGV[i]",
		"local ours = holders[n] and string.gsub(holders[n], '^report:%d+', '') == string.gsub(ARGV[i], '^report:%d+', '')", ""},
	{"a late nack opens another notice", "before == 'delivered' and record == ARGV[i + 3]", "before == 'delivered'", ""},
	{"settled notices are forgotten too early", "'-inf', format('%.0f', now - tonumber(ARGV[1]))", "'-inf', '+inf'", ""},
	{"a move takes along what is claimed", "if redis.call('EXISTS', ARGV[1] .. key) == 0 then\n    local record, other",
		"if true then\n    local record, other", moves},
	{"a move forgets what the score says", "redis.call('ZADD', KEYS[4 + z], score, key)",
		"redis.call('ZADD', KEYS[4 + z], math.floor(score), key)", moves},
	{"a move leaves the record", "redis.call('HDEL', KEYS[2], key)\n        if op", "if op", moves},
	{"a notice is not looked for under other prefixes before another is made", "for k = 5, #KEYS - 1, 4 do\n  local there",
		"for k = 5, 0, 4 do\n  local there", moves},
	{"a replace leaves what lies under another prefix", "call('HDEL', KEYS[k + 1], key)\n        call('ZREM', KEYS[k], key)", "", moves},
	{"an instance does not know where others put notices", "if redis.call('HGET', KEYS[#KEYS], 'state') ~= '", "if false and '' ~= '", moves},
	{"an adoption does not look at the timer again", "if ARGV[4] ~= '0' then\n    local size", "if false then\n    local size", adoption},
	{"an adoption does not ask which notice it takes the place of", "local ok, filled = (score or '') == seen and birth == made, false",
		"local ok, filled = true, false", adoption},
	{"an adoption leaves the old notice's claim", "redis.call('DEL', ARGV[1] .. key)\n      local died", "local died", adoption},
	{"an adopted notice is due before its timer has expired", "local due = expire + 1", "local due = expire", adoption},
	{"a body is filled in over a claim", "score and\n    redis.call('EXISTS', ARGV[1] .. key) == 0 then", "score then", adoption},
	{"a body that came late is not filled in", "ok, filled = true, true", "ok, filled = false, false", adoption},
	{"a timer with another payload is passed over", "same = body == '\"json\":' .. value .. '}' or", "same = true or", adoption},
	{"a retry overwrites what its producer has set", "local set = redis.pcall('SET', key, coming, 'NX', 'PXAT', due - 1)",
		"local set = redis.pcall('SET', key, coming, 'PXAT', due - 1)", adoption},
	{"a redrive overwrites what its producer has set", "redis.pcall('SET', key, '0', 'NX', 'PXAT', at)",
		"redis.pcall('SET', key, '0', 'PXAT', at)", adoption},
	{"a fire deletes what its producer has set", "own and math.abs(expiry(key) + 1 - tonumber(own)) <= 2 then redis.pcall('DEL', key)",
		"own then redis.pcall('DEL', key)", adoption},
	{"a comparison passes over what is gone", "if left < 0 or ARGV[1] == 'd'", "if ARGV[1] == 'd'", adoption},
	{"a settle hands nothing over to history", "if hand then hand(op, key, record) end", "", moves},
	{"what had ended is handed over again when it is replaced", "if hand and ended == 0 then", "if hand then", moves},
	{"what is replaced is handed over under the wrong prefix", "hand(died == 1 and 'R' or 'r', key, old, under)",
		"hand(died == 1 and 'R' or 'r', key, old)", moves},
	{"endings are forgotten that history does not have", "redis.call('LINDEX', KEYS[1], n - 1) == ARGV[4]", "true", moves},
	{"two bring endings to history", "if had[1] and had[1] ~= ARGV[1] and", "if false and", moves},
	{"a notice is put back over another", "if old then\n    reply", "if false then\n    reply", moves},
	{"what is put back is due now", "if due < now then due = now end\n      local own", "due = now\n      local own", moves},
	{"what is put back has a timer until its due time", "redis.pcall('SET', key, ARGV[i + 4], 'PXAT', format('%.0f', due - 1))",
		"redis.pcall('SET', key, ARGV[i + 4], 'PXAT', format('%.0f', due))", moves},
	{"an item of a replay is done twice", "if number > last then", "if true then", moves},
	{"a replay replaces what is pending", "if call('ZSCORE', KEYS[k], key) then return 'pending' end", "", moves},
	{"a replay sends what was cancelled since", "if settled and same and tonumber(settled) % 1 ~= 0 then return 'cancelled' end", "", moves},
	{"a replay leaves what had ended", "call('ZREM', KEYS[k + 3], key)\n        end", "end", moves},
	{"a replay's new webhook-ids are the old ones", "if ARGV[3] == '1' then made =", "if false then made =", moves},
	{"what is pending is forgotten", "if redis.call('ZSCORE', KEYS[1], key) then\n    pending", "if false then\n    pending", moves},
	{"who slept through a reshard is not refused", "if redis.call('HGET', KEYS[#KEYS], 'state') ~= '", "if false and '' ~= '", reshards},
	{"of two reshards at a time both are announced", "if stands ~= ARGV[1] then return 0 end", "", reshards},
	{"what lies in a former shard is not found", "if there[i] then reply[i] = 1 end", "", reshards},
	{"what is on its way is not found", "reply[i] = away[i] and 2 or 0 end", "reply[i] = 0 end", reshards},
	{"what is claimed leaves a former shard", "elseif held_by[i] or lapses > 0 and lapses < 500 / 1024 then", "elseif false then", reshards},
	{"what has lapsed leaves a former shard", "elseif held_by[i] or lapses > 0 and lapses < 500 / 1024 then",
		"elseif held_by[i] then", reshards},
	{"what has left a former shard is still there", "call('HDEL', KEYS[2], unpack(gone))", "", reshards},
	{"a batch arrives twice", "if tonumber(number) >= tonumber(ARGV[2]) then¦if #KEYS == 6 and match(¦if same then\n      put = false",
		"if false then¦if false and match(¦if far and same then\n      put = false", steady},
	{"it is not noted that a batch has arrived",
		"call('HSET', KEYS[#KEYS], from, ARGV[2] .. ' ' .. table.concat(reply, ' '))¦if #KEYS == 6 and match(¦if same then\n      put = false",
		"¦if false and match(¦if far and same then\n      put = false", steady},
	{"a dead letter arrives as nothing", "if score ~= '-' then\n        local z", "if score ~= '-' and j ~= 2 then\n        local z",
		reshards},
	{"a batch has the number of one that Redis has forgotten", ", t[1] * 1000000 + t[2])", ")", reshards},
	{"a batch arrives though Redis has forgotten that it left", "if #KEYS == 6 and match(", "if false and match(", reshards},
	{"what is settled arrives without its time", "z[#z + 1] = score", "z[#z + 1] = j == 3 and math.floor(score) or score", reshards},
}

// recorder is a test whose failure is what is wanted.
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

// story is what was said of the shortest failure, which comes last.
func (r *recorder) story() string {
	var told []string
	for _, line := range r.lines {
		if strings.HasPrefix(line, "[rapid] ") {
			if !strings.HasPrefix(line, "[rapid] draw ") {
				told = nil
			}
			continue
		}
		told = append(told, line)
	}
	return strings.Join(told, "\n\t")
}

// TestTheSimulatorFindsWrongScripts: each script with a wrong line makes it fail.
func TestTheSimulatorFindsWrongScripts(t *testing.T) {
	most := *withinFlag
	for _, m := range mutations[:min(*mutants, len(mutations))] {
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

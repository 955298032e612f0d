package store

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// mutant is a wrong line in a script, which a cell of a rule must find. Where another line would correct the first, it is several lines,
// separated by "¦". Package test/sim has the mutants that only a run of several calls finds.
type mutant struct {
	name, old, new, rule string
	inserted             bool
}

var matrixMutants = []mutant{
	{name: "an expired notice keeps its timer", old: "disarm(ARGV[5], key, text)\n    wins", new: "wins", rule: "expire"},
	{name: "a parked notice does not expire", old: "and not (q and q.waits(key)) or", new: "or", rule: "expire"},
	{name: "an expired notice stays parked", old: "if q then q.start(key) end\n    unhold(KEYS[1], key, score)\n    disarm",
		new: "unhold(KEYS[1], key, score)\n    disarm", rule: "expire"},
	{name: "a late report does not list that the notice expires", old: "if till then watch(KEYS[1], key, till) end\n  local text",
		new: "  local text", rule: "reopen"},
	{name: "a restored notice does not expire", old: "if till then watch(KEYS[1], key, till) end\n    end", new: "    end",
		rule: "restore one that expires"},
	{name: "a redrive forgets the first expiry", old: "if keep and not string.find(tail", new: "if false and not string.find(tail",
		rule: "redrive with an expiry"},
	{name: "a claim is set over another", old: "token, 'NX', 'PX', lease)", new: "token, 'PX', lease)", rule: "claim"},
	{name: "a settle does not check the token", old: "local ours = holders[n] == ARGV[i]", new: "local ours = true",
		rule: "settle delivered"},
	{name: "timers expire at the due time", old: "local at = due - 1", new: "local at = due", rule: "schedule"},
	{name: "a claim does not check that the notice is due",
		old: "if score and (early or floor(score) <= now) and call('SET'", new: "if score and call('SET'", rule: "claim"},
	{name: "a claim does not change the score", old: "if moved > 0 then call('ZADD', KEYS[1], unpack(moves)) end", new: "",
		rule: "claim"},
	{name: "a claim that meets its own token is lost",
		old: "elseif score and expired > 0 and call('GET', prefix .. key) == token then", new: "elseif false then",
		rule: "renew"},
	{name: "a recovery returns another call's claims", old: "call('GET', prefix .. near[i]) == token",
		new: "call('GET', prefix .. near[i])", rule: "recover"},
	{name: "a take-over takes claims of live instances", old: "string.sub(holder, 1, #start) == start", new: "true",
		rule: "take over"},
	{name: "a take-over keeps the old token", old: "call('SET', claims[j], token, 'PX', lease)", new: "", rule: "take over"},
	{name: "a settle without a claim does not check the score",
		old: "if at and (tonumber(at) == tonumber(score) or tonumber(at) == tonumber(before)) then", new: "if at then",
		rule: "settle delivered"},
	{name: "a settle without a claim does not check the generation",
		old: "return record and generation ~= '0' and made(record) == tonumber(generation)", new: "return record",
		rule: "settle delivered after the claim was lost"},
	{name: "a retry does not go back into the shadow", old: "if #moved > 0 then call('ZADD', KEYS[1], unpack(moved)) end",
		new: "", rule: "settle retry"},
	{name: "a delivered notice stays in the shadow", old: "if ends > 0 then call('ZREM', KEYS[1], unpack(done)) end",
		new: "", rule: "settle delivered"},
	{name: "a settle leaves the claim", old: "if drops > 0 then call('DEL', unpack(drop)) end", new: "",
		rule: "settle delivered"},
	{name: "a replace leaves the old notice's claim", old: "call('DEL', claim .. key) unhold(", new: "unhold(",
		rule: "replace"},
	{name: "a replace gives the new notice the old one's generation", old: "return score, successor(record)",
		new: "return score, made(record)", rule: "replace"},
	{name: "a duplicate replaces the existing notice", old: "if old and byte(when) ~= 112 then",
		new: "if old and byte(when) == 107 then", rule: "schedule"},
	{name: "a cancel leaves the claim", old: "redis.call('DEL', ARGV[1] .. key) if ARGV[5]", new: "if ARGV[5]",
		rule: "cancel"},
	{name: "a cancel leaves the timer", old: "disarm(ARGV[4], key, own)\n    if hand", new: "if hand", rule: "cancel"},
	{name: "a reschedule changes a claimed notice", old: "(op == 'reschedule' or op == 'fire') and before == 'scheduled'",
		new: "(op == 'reschedule' or op == 'fire') and own", rule: "reschedule"},
	{name: "a resend accepts a notice in flight", old: "op == 'resend' and (before == 'delivered' or before == 'dead')",
		new: "op == 'resend' and (before == 'delivered' or before == 'dead' or before == 'claimed')", rule: "resend"},
	{name: "a resend accepts a cancelled notice", old: "op == 'resend' and (before == 'delivered' or before == 'dead')",
		new: "op == 'resend' and before ~= 'scheduled' and before ~= 'claimed'", rule: "resend"},
	{name: "a resend keeps the record that was read",
		old: "done = schedule(key, when, ARGV[i + 2])\n    if done == 1 then\n",
		new: "done = schedule(key, when, ARGV[i + 3])\n    if done == 1 then\n", rule: "resend"},
	{name: "a resent notice stays among the dead letters",
		old: "if done == 1 then\n      redis.call('ZREM', KEYS[3], key)\n", new: "if done == 1 then\n", rule: "resend"},
	{name: "a move takes claimed notices", old: "if redis.call('EXISTS', ARGV[1] .. key) == 0 then\n    local record, other",
		new: "if true then\n    local record, other", rule: "rehome"},
	{name: "a move drops the score's fraction", old: "redis.call('ZADD', KEYS[4 + z], score, key)",
		new: "redis.call('ZADD', KEYS[4 + z], math.floor(score), key)", rule: "rehome"},
	{name: "a move leaves the record", old: "redis.call('HDEL', KEYS[2], key)\n        if op", new: "if op", rule: "rehome"},
	{name: "an adoption does not check the timer again", old: "if ARGV[4] ~= '0' then\n    local size",
		new: "if false then\n    local size", rule: "adopt fill"},
	{name: "an adoption does not check which notice it replaces",
		old: "local ok, filled = (score or '') == seen and made(old) == generation, false",
		new: "local ok, filled = true, false", rule: "adopt fill"},
	{name: "an adoption leaves the old notice's claim", old: "call('DEL', claim .. key) unhold(", new: "unhold(",
		rule: "replace"},
	{name: "an adopted notice is due before its timer has expired", old: "local due = expire + 1", new: "local due = expire",
		rule: "adopt new"},
	{name: "a body that came late is not filled in", old: "ok, filled = true, true", new: "ok, filled = false, false",
		rule: "adopt fill"},
	{name: "a retry overwrites the producer's timer", old: "redis.pcall('SET', key, value, 'NX', 'PXAT', at)",
		new: "redis.pcall('SET', key, value, 'PXAT', at)", rule: "replace"},
	{name: "a fire deletes the producer's timer", old: "return at == due - 1 end", new: "return at > 0 end",
		rule: "replace in an old shard"},
	{name: "a settle adds no entry to the outbox", old: "if hand then hand(op, key, record) end", new: "",
		rule: "settle delivered"},
	{name: "a replaced notice that was finalized gets a second entry", old: "if hand and ended == 0 then hand(",
		new: "if hand then hand(", rule: "replace"},
	{name: "a restore replaces another notice", old: "if old then\n    reply", new: "if false then\n    reply",
		rule: "restore a dead letter"},
	{name: "a restored notice is due now", old: "if due < now then due = now end\n      local timed",
		new: "due = now\n      local timed", rule: "restore one that expires"},
	{name: "the timer of a restored notice expires at the due time", old: "local at = due - 1", new: "local at = due",
		rule: "schedule"},
	{name: "a replay replaces a pending notice", old: "if call('ZSCORE', KEYS[k], key) then return 'pending' end", new: "",
		rule: "replay"},
	{name: "a replay sends a notice that was cancelled since",
		old: "if settled and same and cancelled(settled) then return 'cancelled' end", new: "", rule: "replay"},
	{name: "a replay leaves the finalized notice", old: "call('ZREM', KEYS[k + 3], key)\n          if q[g]", new: "if q[g]",
		rule: "replay"},
	{name: "a replay's new webhook-ids are the old ones", old: "if ARGV[3] == '1' then generation =",
		new: "if false then generation =", rule: "replay with a new id"},
	{name: "an erasure removes a pending notice", old: "if redis.call('ZSCORE', KEYS[1], key) then\n    pending",
		new: "if false then\n    pending", rule: "forget"},
	{name: "a claimed notice leaves an old shard", old: "elseif held_by[i] or leases(score) > 0 then",
		new: "elseif false then", rule: "export to another shard"},
	{name: "a notice with an expired lease leaves an old shard", old: "elseif held_by[i] or leases(score) > 0 then",
		new: "elseif held_by[i] then", rule: "export to another shard"},
	{name: "an exported notice stays in its old shard", old: "call('HDEL', KEYS[2], unpack(gone))", new: "", rule: "bury"},
	{name: "the import of a batch is not recorded",
		old: "call('HSET', KEYS[#KEYS], from, ARGV[2] .. ' ' .. table.concat(reply, ' '))¦if #KEYS == 6 and match(¦" +
			"if same then\n      put = false",
		new: "¦if false and match(¦if far and same then\n      put = false", rule: "import"},
	{name: "a batch has the number of a batch that Redis has lost", old: ", t[1] * 1000000 + t[2])", new: ")",
		rule: "export to another shard"},
	{name: "a notice starts while another one is in flight", old: "elseif held and held ~= token .. ' ' .. key then",
		new: "elseif false then", rule: "claim"},
	{name: "a settle leaves the marker", old: "if q and not refused and (op ~= 'w' or not ours) then q.free(key, token) end",
		new: "", rule: "settle delivered"},
	{name: "a stale settle leaves the marker", old: "(op ~= 'w' or not ours) then q.free",
		new: "ours and op ~= 'w' then q.free", rule: "settle delivered"},
	{name: "no parked notice is woken", old: "for name in pairs(touched) do", new: "for name in pairs({}) do", rule: "fire"},
	{name: "a notice is woken that is not parked", old: "if waits[i] then", new: "if true then", rule: "replace"},
	{name: "a notice is woken while another one is in flight", old: "remaining >= 0 and now + remaining + 1 or now",
		new: "now", rule: "fire"},
	{name: "a retry loses the position", old: "or not ours) then q.free(key, token) end",
		new:  "or not ours) then q.free(key, token) if op == 'r' and ours then q.join(key, now, 0) end end",
		rule: "settle retry"},
	{name: "a fire loses the position", old: "if op == 'fire' then stays", new: "if false then stays", rule: "fire"},
	{name: "a replace keeps the position",
		old: "if q then q.leave(key) end call('DEL', claim .. key)¦if q then q.enter(key, due, own, n) end",
		new: "call('DEL', claim .. key)¦if q then q.keep(key, due, own) end", rule: "schedule"},
	{name: "a replace forgets the notice in flight", old: "if q then q.leave(key) end call('DEL', claim .. key)",
		new: "call('DEL', claim .. key)", rule: "replace"},
	{name: "a cancel forgets the notice in flight", old: "left[key], joined[key] = true, nil hold(key)",
		new: "left[key], joined[key] = true, nil", rule: "replace"},
	{name: "a marker is not seen", old: "if not any(marked) then return nil end", new: "do return nil end", rule: "claim"},
	{name: "no successor becomes the head", old: "any(later) and call('ZRANGEBYLEX'", new: "false and call('ZRANGEBYLEX'",
		rule: "cancel"},
	{name: "a dead letter holds back its successors", old: "if q and not (op == 'x' and q.blocks) then q.leave(key) end",
		new: "if q and op ~= 'x' then q.leave(key) end", rule: "settle dead"},
	{name: "a dead letter does not hold back its successors",
		old: "if q and not (op == 'x' and q.blocks) then q.leave(key) end", new: "if q then q.leave(key) end",
		rule: "settle dead"},
	{name: "a redrive loses the position of a dead letter", old: "local stays = q.blocks and (op",
		new: "local stays = false and (op", rule: "redrive"},
	{name: "a resent notice has no position", old: "if q then place(key, due, record) end",
		new: "if q and op ~= 'resend' then place(key, due, record) end", rule: "resend"},
	{name: "a restored notice joins at the present time", old: "q.keep(key, due, made('{", new: "q.keep(key, now, made('{",
		rule: "restore a dead letter"},
	{name: "a restored dead letter does not hold back its successors", old: "if q and (died == '' or q.blocks) then",
		new: "if q and died == '' then", rule: "restore a dead letter"},
	{name: "a resent dead letter loses its position", old: "op == 'resend' and redis.call('ZSCORE', KEYS[3], key)",
		new: "false", rule: "resend"},
	{name: "a replayed notice joins at the present time",
		old: "q[group].enter(key, promised or due, tonumber(generation), n)",
		new: "q[group].enter(key, now, tonumber(generation), n)", rule: "replay for later"},
	{name: "a notice that moves to another prefix loses its position", old: "local position = from and from.position(key)",
		new: "local position = nil", rule: "rehome"},
	{name: "a notice that moves to another prefix stays parked", old: "if score and z == 1 and parked then",
		new: "if false then", rule: "rehome"},
	{name: "a move to another prefix wakes no parked notice", old: "if from and from.finish() then",
		new: "if false then", rule: "rehome"},
	{name: "an adopted notice has no position", old: "if q and op ~= 'c' then q.join(", new: "if false then q.join(",
		rule: "adopt new"},
	{name: "a notice whose timer was deleted keeps its position",
		old: "if q then q.leave(key) end redis.call('DEL', ARGV[1] .. key) if", new: "redis.call('DEL', ARGV[1] .. key) if",
		rule: "cancel"},
	{name: "an exported notice loses its position", old: "local position = q and q.position(key)",
		new: "local position = nil", rule: "export to another shard"},
	{name: "an imported notice loses its position", old: "if q and position ~= '' then\n      q.put",
		new: "if false then\n      q.put", rule: "import"},
	{name: "an exported notice leaves its position", old: "if q then q.leave(key) end\n        local pause",
		new: "local pause", rule: "export to another shard"},
	{name: "an exported notice stays parked", old: "local leaves = q and q.waits(key) and", new: "local leaves = false and",
		rule: "export to another shard"},
	{name: "a death adds no entry to the outbox of hooks",
		old: "deaths[#deaths + 1] = format('%.0f', reply[1]) .. ' ' .. death", new: "", rule: "settle dead with a hook"},
	{name: "a restored dead letter adds a death", old: "call('ZADD', KEYS[3], died, key)",
		new:  "call('ZADD', KEYS[3], died, key)\n      call('RPUSH', string.match(KEYS[1], '^(.-}:)') .. 'deaths', '1 k-1 hook {}')",
		rule: "restore a dead letter"},
	{name: "a schedule does not list that the notice expires",
		old: "watched[#watched + 1], watched[#watched + 2] = format('%.0f', till), key", new: "",
		rule: "schedule one that expires"},
	{name: "a notice that expires before it is due is rescheduled",
		old: "if till and tonumber(till) <= due and op ~= 'reopen' then return nil end", new: "", rule: "reschedule"},
	{name: "a delivered notice stays listed", old: "if ends > 0 then call('ZREM', expiring, unpack(done)) end", new: "",
		rule: "settle delivered"},
	{name: "a cancelled notice stays listed", old: "if ends(record) then watch(KEYS[1], key, nil) end redis", new: "redis",
		rule: "cancel"},
	{name: "a replaced notice stays listed", old: "call('ZREM', index, key) end", new: "end", rule: "replace"},
	{name: "a notice in flight is claimed as expired",
		old: "and not (q and q.waits(key)) or\n    not call('SET', prefix .. key, token, 'NX', 'PX', lease) then",
		new: "and false or\n    not call('SET', prefix .. key, token, 'PX', lease) then", rule: "expire"},
	{name: "a notice in flight stays first among those that have expired",
		old: "watch(KEYS[1], key, format('%.0f', math.max(floor(score) + 1, now + 50)))", new: "", rule: "expire"},
	{name: "a claim of an expired notice does not count expired leases", old: "math.min(expired + 1, mostleases)",
		new: "math.min(1, mostleases)", rule: "claim"},
	{name: "a moved notice stays listed under its old prefix", old: "watch(KEYS[1], key, nil)\n          if score",
		new: "if score", rule: "rehome"},
	{name: "a moved notice does not expire", old: "if score and op ~= 'd' then watch(KEYS[5], key, ends(record)) end",
		new: "", rule: "rehome"},
}

// noScript is Redis's answer to the hash of an unknown script. The client then sends the text.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT no matching script" }
func (noScript) RedisError()   {}

// insert changes the text of a script that has the line. It returns false if it has answered the command itself, as Redis would answer if
// it did not know the script: the client then sends the text.
func (m *mutant) insert(cmd redis.Cmder) bool {
	switch args := cmd.Args(); cmd.Name() {
	case "evalsha":
		cmd.SetErr(noScript{})
		return false
	case "eval":
		olds, news := strings.Split(m.old, "¦"), strings.Split(m.new, "¦")
		if text, _ := args[1].(string); strings.Contains(text, olds[0]) {
			for i, old := range olds {
				text = strings.Replace(text, old, news[i], 1)
			}

			args[1], m.inserted = text, true
		}
	}
	return true
}

// TestMatrixFindsMutants fails if all cells of a rule pass although a script has a wrong line.
func TestMatrixFindsMutants(t *testing.T) {
	all := map[string][]cell{}
	for _, c := range slices.Concat(cells(), pairs(), expiring()) {
		all[c.rule.name] = append(all[c.rule.name], c)
	}

	for i := range matrixMutants {
		m := &matrixMutants[i]
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			m.find(t, all[m.rule])
		})
	}
}

// find fails if no cell is wrong with the mutant. It mixes the cells: neighbours differ in little.
func (m *mutant) find(t *testing.T, list []cell) {
	const step = 7919 // a prime number, so that each cell has its turn
	r := newRig(t)
	r.mutant = m
	for i := range list {
		c := list[i*step%len(list)]
		wrong, _, err := r.check(c)
		var refusal redis.Error // by Redis, of a command that the mutant has changed
		if err != nil && !errors.As(err, &refusal) {
			t.Fatalf("%s: %v", c, err)
		}

		if err != nil || len(wrong) > 0 {
			t.Logf("found by %s, cell %d", c, i)
			return
		}
	}

	if !m.inserted {
		t.Fatalf("no script of the rule %q has the line %q", m.rule, m.old)
	}
	t.Errorf("all %d cells passed", len(list))
}

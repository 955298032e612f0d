package sim

import "strings"

// unwoken returns a mutation in which a script that runs a line wakes no parked notice. The line is
// the same; the code before it sets a mark.
func unwoken(name, before, line string, k kind) mutation {
	return mutation{name, line + "¦for name in pairs(touched) do", before + " " + strings.TrimLeft(line, " ") +
		"¦for name in pairs(ARGV.quiet and {} or touched) do", k}
}

// sequenceMutations are wrong lines in the code for sequences. The lines of order.lua are joined: see
// wire.Prelude.
var sequenceMutations = []mutation{
	{"a notice starts before an earlier one", "if head(name) ~= key then local own", "if false then local own", sequences},
	{"a notice starts while another one is in flight", "elseif held and held ~= token .. ' ' .. key then", "elseif false then", sequences},
	{"a settle leaves the marker", "if q and not refused and (op ~= 'w' or not ours) then q.free(key, token) end", "", sequences},
	{"a stale settle leaves the marker", "(op ~= 'w' or not ours) then q.free", "ours and op ~= 'w' then q.free", sequences},
	{"no parked notice is woken", "for name in pairs(touched) do", "for name in pairs({}) do", sequences},
	unwoken("a cancel wakes no parked notice", "if before ~= 'dead' then ARGV.quiet = true end",
		"if hand and op ~= 'retire' then hand(before == 'dead' and 'C'",
		sequences),
	unwoken("the cancel of a dead letter wakes no parked notice", "if before == 'dead' then ARGV.quiet = true end",
		"if hand and op ~= 'retire' then hand(before == 'dead' and 'C'", sequences),
	unwoken("a purge wakes no parked notice", "if op == 'purge' then ARGV.quiet = true end",
		"if hand and op ~= 'retire' then hand(before == 'dead' and 'C'",
		sequences),
	unwoken("a reschedule wakes no parked notice", "ARGV.quiet = op == 'reschedule'", "schedule(key, op == 'fire' and '+0'", sequences),
	unwoken("a replace wakes no parked notice", "ARGV.quiet = true", "if q then q.leave(key) end call('DEL', claim .. key)", sequences),
	unwoken("a death wakes no parked notice", "ARGV.quiet = true",
		"        dead[#dead + 1] = format('%.17g', now + match(facts, '%S+$') * onedeath)", sequences),
	unwoken("an erasure wakes no parked notice", "ARGV.quiet = true", "    if q then q.leave(key) end\n  end\nend\nif q then q.finish()",
		sequences),
	{"a notice is woken that is not parked", "if key and call('ZSCORE', waiting, key) then", "if key then", sequences},
	{"a notice is woken while another one is in flight", "rest >= 0 and now + rest + 1 or now", "now", sequences},
	{"a retry loses the position", "or not ours) then q.free(key, token) end",
		"or not ours) then q.free(key, token) if op == 'r' and ours then q.join(key, now, 0) end end", sequences},
	{"a fire loses the position", "if op == 'fire' then stays", "if false then stays", sequences},
	{"a reschedule keeps the position", "if op == 'fire' then stays", "if op == 'reschedule' then stays = true elseif op == 'fire' then " +
		"stays", sequences},
	{"a replace keeps the position", "if q then q.leave(key) end call('DEL', claim .. key)¦if q then q.enter(key, due, own, n) end",
		"call('DEL', claim .. key)¦if q then q.keep(key, due, own) end", sequences},
	{"a replace forgets the notice in flight", "if q then q.leave(key) end call('DEL', claim .. key)",
		"call('DEL', claim .. key)", sequences},
	{"a cancel forgets the notice in flight", "left[key], joined[key] = true, nil hold(key)",
		"left[key], joined[key] = true, nil", sequences},
	{"a notice with an earlier position forgets the one in flight", "if old and not joined[sub(old, 29)] then hold(sub(old, 29)) end", "",
		sequences},
	{"a marker is not seen", "if not any(marked) then return nil end", "do return nil end", sequences},
	{"no successor becomes the head", "any(later) and call('ZRANGEBYLEX'", "false and call('ZRANGEBYLEX'", sequences},
	{"a dead letter holds back its successors", "if q and not (op == 'x' and q.blocks) then q.leave(key) end",
		"if q and op ~= 'x' then q.leave(key) end", sequences},
	{"a dead letter does not hold back its successors", "if q and not (op == 'x' and q.blocks) then q.leave(key) end",
		"if q then q.leave(key) end", sequences},
	{"a redrive joins at the old due time", "if stays then q.keep(", "if stays or op == 'redrive' then q.keep(", sequences},
	{"a redrive loses the position of a dead letter", "local stays = q.blocks and (op", "local stays = false and (op", sequences},
	{"a resent notice has no position", "if q then place(key, due, record) end", "if q and op ~= 'resend' then place(key, due, record) end",
		sequences},
	{"a restored notice joins at the present time", "q.keep(key, due, made('{",
		"q.keep(key, now, made('{", sequences},
	{"a restored dead letter does not hold back its successors", "if q and (died == '' or q.blocks) then", "if q and died == '' then",
		sequences},
	{"a resent dead letter loses its position", "op == 'resend' and redis.call('ZSCORE', KEYS[3], key)", "false", sequences},
	{"a replayed notice joins at the present time", "q[group].enter(key, promised or due, tonumber(generation), n)",
		"q[group].enter(key, now, tonumber(generation), n)", sequences},
	{"a claimed notice is parked", "if not till or call('EXISTS', claim .. key) == 1 then return nil end", "if not till then return nil end",
		sequences},
	{"a parked notice loses its expired leases", "return q.score(till, score)", "return format('%.17g', till + part)", sequences},
	{"a woken notice loses its expired leases", "call('ZADD', shadow, 'XX', q.score(rest >= 0 and now + rest + 1 or now, call('ZSCORE', " +
		"shadow, key) or 0), key)",
		"call('ZADD', shadow, 'XX', q.score(rest >= 0 and now + rest + 1 or now, 0), key)", sequences},
	{"a notice that moves to another prefix loses its position", "local position = from and from.position(key)", "local position = nil",
		moves},
	{"a notice that moves to another prefix stays parked", "if score and z == 1 and parked then", "if false then", moves},
	{"a move to another prefix wakes no parked notice", "if from then from.finish() end", "if from then from.finish = nil end", moves},
	{"a replace leaves the position under another prefix",
		"sequences, other[key] = others[k], nil", "sequences, other[key] = nil, nil", moves},
	{"an adopted notice has no position", "if q and op ~= 'c' then q.join(", "if false then q.join(", adoption},
	{"a notice whose timer was deleted keeps its position", "if q then q.leave(key) end redis.call('DEL', ARGV[1] .. key) if",
		"redis.call('DEL', ARGV[1] .. key) if", adoption},
	{"an exported notice loses its position", "local position = q and q.position(key)", "local position = nil", reshards},
	{"an imported notice loses its position", "if q and position ~= '' then\n      q.put", "if false then\n      q.put", reshards},
	{"an exported notice leaves its position", "if q then q.leave(key) end\n        local pause", "local pause", reshards},
	{"an exported notice stays parked", "local leaves = q and q.waits(key) and", "local leaves = false and", reshards},
}

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
	unwoken("an erasure wakes no parked notice", "ARGV.quiet = true", "    if q then q.leave(key) end\n  end\nend\nif q and q.finish()",
		sequences),
	{"a reschedule keeps the position", "if op == 'fire' then stays", "if op == 'reschedule' then stays = true elseif op == 'fire' then " +
		"stays", sequences},
	{"a notice with an earlier position forgets the one in flight", "if old and not joined[sub(old, 29)] then hold(sub(old, 29)) end", "",
		sequences},
	{"a redrive joins at the old due time", "if stays then q.keep(", "if stays or op == 'redrive' then q.keep(", sequences},
	{"a claimed notice is parked", "if not till or call('EXISTS', claim .. key) == 1 then return nil end", "if not till then return nil end",
		sequences},
	{"a parked notice loses its expired leases", "return q.score(till, score)", "return format('%.17g', till + part)", sequences},
	{"a woken notice loses its expired leases", "now + remaining + 1 or now, scores[i] or 0), key",
		"now + remaining + 1 or now, 0), key", sequences},
	{"a replace leaves the position under another prefix",
		"sequences, other[key] = others[k], nil", "sequences, other[key] = nil, nil", moves},
}

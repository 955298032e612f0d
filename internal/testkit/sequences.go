package testkit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// SequenceKeys returns those of a list of keys that store sequences.
func SequenceKeys(list []string) (found []string) {
	for _, k := range list {
		for _, kind := range []string{":order:", ":successors:", ":positions:", ":waiting:", ":markers:", ":sequence:"} {
			if strings.Contains(k, kind) {
				found = append(found, k)
			}
		}
	}
	return found
}

// Sequences are the sequences of an ordered route in one shard: see layout.Order.
type Sequences struct {
	// Members are "<order key> <position> <key>", sorted.
	Members []string
	// Markers are the notices in flight, as "<token> <key>", by order key.
	Markers map[string]string
	// Left is the time until a marker expires, in ms, by order key.
	Left map[string]float64
}

// A sequence's notice in flight is its head, if the head has a claim, or else the one that its marker names.
var readSequences = redis.NewScript(`
local base, route = KEYS[1], ARGV[1]
local first = redis.call('HGETALL', base .. 'order:' .. route)
local markers = {}
local function mark(name, holder, left)
  for _, x in ipairs({name, holder, tostring(left)}) do markers[#markers + 1] = x end
end
for i = 2, #first, 2 do
  local key = string.sub(first[i], 29)
  local token = redis.call('GET', base .. 'claim:' .. key)
  if token then mark(first[i - 1], token .. ' ' .. key, redis.call('PTTL', base .. 'claim:' .. key)) end
end
local start = base .. 'sequence:' .. route .. ':'
for _, key in ipairs(redis.call('KEYS', start .. '*')) do
  local held = redis.call('GET', key)
  if held then mark(string.sub(key, #start + 1), held, redis.call('PTTL', key)) end
end
return {first, redis.call('ZRANGE', base .. 'successors:' .. route, 0, -1), redis.call('HGETALL', base .. 'positions:' .. route), markers}`)

// ReadSequences reads the sequences of a route in the shard whose keys begin with base. It returns an error if what is
// stored contradicts itself.
func ReadSequences(ctx context.Context, c redis.Scripter, base, route string) (q Sequences, err error) {
	v, err := readSequences.Run(ctx, c, []string{base}, route).Slice()
	if err != nil {
		return q, err
	}

	var lists [4][]string
	for i := range lists {
		for _, x := range v[i].([]any) {
			lists[i] = append(lists[i], x.(string))
		}
	}

	heads, positions := map[string]string{}, map[string]string{}
	for i := 0; i < len(lists[0]); i += 2 {
		heads[lists[0][i]] = lists[0][i+1]
		q.Members = append(q.Members, lists[0][i]+" "+lists[0][i+1])
	}

	for i := 0; i < len(lists[2]); i += 2 {
		positions[lists[2][i]] = lists[2][i+1]
	}

	for _, m := range lists[1] {
		words := strings.Split(m, " ")
		if len(words) != 3 || positions[words[2]] != words[1] {
			return q, fmt.Errorf("the successor %q has the position %q", m, positions[words[2]])
		}
		if head := heads[words[0]]; head == "" || head >= words[1] {
			return q, fmt.Errorf("the successor %q has the head %q", m, head)
		}
	}

	if len(positions) != len(lists[1]) {
		return q, fmt.Errorf("%d positions of %d successors", len(positions), len(lists[1]))
	}

	q.Members = append(q.Members, lists[1]...)
	slices.Sort(q.Members)
	q.Markers, q.Left = map[string]string{}, map[string]float64{}
	for i := 0; i < len(lists[3]); i += 3 {
		name, holder := lists[3][i], lists[3][i+1]
		if q.Markers[name] != "" && q.Markers[name] != holder {
			return q, fmt.Errorf("in the sequence %s, %q and %q are in flight", name, q.Markers[name], holder)
		}

		q.Markers[name] = holder
		if q.Left[name], err = strconv.ParseFloat(lists[3][i+2], 64); err != nil {
			return q, err
		}
	}

	return q, nil
}

package keys

import (
	"strconv"
	"strings"
	"sync"
)

// Slots is how many hash slots a cluster has.
const Slots = 16384

// Slot is the hash slot of a key in a cluster: CRC16 (XMODEM) of its hash tag, or of all
// of it where it has none.
func Slot(key string) int {
	if tag, ok := hashTag(key); ok {
		key = tag
	}

	crc := uint16(0)
	for i := 0; i < len(key); i++ {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}

	return int(crc % Slots)
}

// hashTag returns the text between the first '{' of a key and the next '}'.
func hashTag(key string) (tag string, ok bool) {
	_, rest, found := strings.Cut(key, "{")
	if !found {
		return "", false
	}

	tag, _, found = strings.Cut(rest, "}")
	return tag, found && tag != ""
}

// numbers contains, by slot, the smallest number that is a hash tag of the slot.
var numbers = sync.OnceValue(func() []int {
	list := make([]int, Slots)
	for i := range list {
		list[i] = -1
	}

	for n, left := 0, Slots; left > 0; n++ {
		if s := Slot(strconv.Itoa(n)); list[s] < 0 {
			list[s] = n
			left--
		}
	}

	return list
})

// TagIn returns the smallest number that is a hash tag of a slot.
func TagIn(slot int) string { return strconv.Itoa(numbers()[slot]) }

// SpreadTags are tags for n shards that lie at even distances over the slots, so that
// masters with as many slots hold as many shards, give or take one. Nil for one shard.
func SpreadTags(n int) []string {
	if n <= 1 {
		return nil
	}

	tags := make([]string, n)
	for i := range tags {
		tags[i] = TagIn((2*i + 1) * Slots / (2 * n))
	}

	return tags
}

// slotTag returns a hash tag that puts another key into the slot of key.
func slotTag(key string) string {
	if tag, ok := hashTag(key); ok {
		return tag
	}
	if !strings.Contains(key, "}") {
		return key
	}

	return TagIn(Slot(key))
}

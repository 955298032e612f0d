-- The generation of a notice that is created now, in µs since 2020; needs clock and record. Two scripts are more than 1 µs apart, so two
-- notices of a key never have the same generation, even if nothing of the first one is stored.
--   successor(record)  returns the generation of a notice that replaces the one of the record, above that one's
local birth = t[1] * 1000000 + t[2] - 1577836800000000
local function successor(record) return math.max(birth, made(record) + 1) end

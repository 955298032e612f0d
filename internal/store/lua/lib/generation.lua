-- The generation of a notice that is created now, in µs since 2020; needs clock. Two scripts are more than 1 µs apart, so two notices of
-- a key never have the same generation, even if nothing of the first one is stored.
local birth = t[1] * 1000000 + t[2] - 1577836800000000

-- Generations of notices that replace others; needs record and generation.
--   successor(record)  returns the generation of a notice that replaces the one of the record, above that one's
local function successor(record) return math.max(birth, made(record) + 1) end

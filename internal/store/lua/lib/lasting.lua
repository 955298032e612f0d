-- Changes when a notice expires; needs stamps.
--   lasting(record, at, keep)  returns the record with another time, given as text; an unreadable record is returned unchanged. keep adds
--                              the time of the creation as "first_expires", -1 = none, unless the record has it: see notice.Content
local function lasting(record, at, keep)
  local length = stamps(record)
  if not length then return record end
  local tail = string.sub(record, length + 1)
  local old, rest = string.match(tail, '^,"expires":(%d+)(.*)$')
  if old then tail = rest end
  if keep and not string.find(tail, '^,"first_expires":') then tail = ',"first_expires":' .. (old or '-1') .. tail end
  return string.sub(record, 1, length) .. ',"expires":' .. at .. tail
end

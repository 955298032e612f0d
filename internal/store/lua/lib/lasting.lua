-- Changes when a notice expires.
--   lasting(record, at, keep)  returns the record with another time, given as text; an unreadable record is returned unchanged. keep adds
--                              the time of the creation as "first_expires", -1 = none, unless the record has it: see notice.Content
local function lasting(record, at, keep)
  local head, tail = string.match(record, '^({"due":%d+,"made":%d+,"first":%-?%d+)(.*)$')
  if not head then head, tail = string.match(record, '^({"due":%d+,"made":%d+)(.*)$') end
  if not head then return record end
  local old, rest = string.match(tail, '^,"expires":(%d+)(.*)$')
  if old then tail = rest end
  if keep and not string.find(tail, '^,"first_expires":') then tail = ',"first_expires":' .. (old or '-1') .. tail end
  return head .. ',"expires":' .. at .. tail
end

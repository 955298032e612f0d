-- Changes when a notice expires; needs ends.
--   lasting(record, at)  returns the record with another time, given as text; an unreadable record is returned unchanged
local function lasting(record, at)
  local old = ends(record)
  if old then return (string.gsub(record, '"expires":' .. old, '"expires":' .. at, 1)) end
  local head, tail = string.match(record, '^({"due":%d+,"made":%d+,"first":%-?%d+)(.*)$')
  if not head then head, tail = string.match(record, '^({"due":%d+,"made":%d+)(.*)$') end
  return head and head .. ',"expires":' .. at .. tail or record
end
